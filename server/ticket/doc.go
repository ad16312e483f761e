// Package ticket lets a browser's dial be authorised by a one-time ticket.
//
// A browser sets no headers on a WebSocket dial. That leaves cookies, the
// subprotocol and the URL, and a URL ends up in logs: of proxies, of the server, of
// the page. A ticket is a token for the URL that lives for seconds and is worthless
// once it was dialled with.
//
// # Which login for whom
//
//   - A page whose cookies reach the endpoint needs no ticket: read the cookie in
//     server.Options.Authenticate. The server refuses foreign origins.
//   - A page whose login is a header (a bearer token in memory), or whose cookies
//     must not suffice for a dial, fetches a ticket before each dial.
//   - A page that may not fetch, or whose URLs may hold nothing at all, offers its
//     token as a subprotocol, and a second one that server.Options.Subprotocols
//     lists: a browser fails a connection whose server picks none of those offered.
//     The clients of this module offer none, so this is for clients of your own.
//   - A program that is no browser sets a header.
//
// The examples show the first three.
//
// # Use
//
// Mount [Authority.Handler] for POST, and give [Authority.Authenticate] to the
// server. A page then dials like this, with a fresh ticket each time, for a ticket
// that was used is refused when the page reconnects:
//
//	connect({
//	  probe: '/probe',
//	  url: async () => {
//	    const response = await fetch('/ticket', { method: 'POST' });
//	    if (response.status === 401) return '/ws'; // refused; the probe then says why
//	    if (!response.ok) throw new Error('no ticket');
//	    return '/ws?ticket=' + (await response.json()).ticket;
//	  },
//	});
//
// What the url function throws is retried for ever. So a login that is over must
// not be thrown: dial without a ticket, and the probe finds out and ends the client.
//
// # The probe
//
// The probe of a server asks Authenticate as well, and must use no ticket up. So a
// ticket counts on upgrades alone: any other request is answered by Options.Login,
// the function that Handler asks too. The probe shows that the login is good, not
// that a ticket would be.
//
// # Once
//
// A ticket is remembered from its first use to its end, by [Used]. The default is
// this process's memory. What was used before the process began is not known to it,
// so it refuses every ticket that was issued before [New], by the ticket's "iat" in
// milliseconds; a clock that is set back is taken the safe way, as "used before" or
// "before the start" until it has caught up. Several nodes that share keys need a shared Used: without one a
// ticket is good for one dial per node.
//
// Refusals wrap server.ErrUnauthorized and say nothing of the ticket's text.
//
// # Format
//
// A ticket is a JWT (RFC 7519), signed HS256: who issues tickets is who checks them,
// so there is nobody who would need a public key. Another program that has a key can
// issue them. Claims: "jti", 1 to 64 bytes, never the same twice; "iat" and "exp", at
// most MaxLife apart, with fractions of seconds if Used is the default (the ticket
// would seem to be from before the start for up to a second after it); "aud",
// Options.Audience; "sub", the user, absent for an anonymous one; "login_exp", when
// the login ends, absent for never.
package ticket
