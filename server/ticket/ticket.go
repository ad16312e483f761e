package ticket

import (
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/golang-jwt/jwt/v5"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

const (
	// QueryParameter is where a dial's URL has the ticket.
	QueryParameter = "ticket"
	// SubprotocolPrefix begins the subprotocol that is a ticket, for a dial whose
	// URL has none.
	SubprotocolPrefix = "longwire.ticket."
	// MaxLife bounds Options.Life, and the life of any ticket that is taken.
	MaxLife = 5 * time.Minute

	defaultLife     = 30 * time.Second
	minLife         = time.Second
	defaultAudience = "longwire-ticket"
	defaultLimit    = 1_000_000
	minKey          = 32 // RFC 7518 section 3.2: as long as the hash
	maxAudience     = 256
	maxTicket       = 8 << 10
	// skew is how far the clocks of nodes that share a Used may be apart.
	skew = 5 * time.Second
)

// Options configure an Authority. Only Login is required.
type Options struct {
	// Login says who sends a request, by cookie or header: to Handler, and to
	// Authenticate whenever the request is no WebSocket upgrade. It is what
	// server.Options.Authenticate would be without tickets, errors included.
	Login func(*http.Request) (server.Identity, error)

	// Keys are secrets of at least 32 random bytes. The first signs, each is good
	// for checking: to rotate, append the new key on every node, then move it to the
	// front, then drop the old one. Use them for nothing else. None: a random one,
	// known to this Authority alone.
	Keys [][]byte

	// Life is how long a ticket is good for: 1 s to MaxLife. Default 30 s.
	Life time.Duration

	// Audience tells tickets from what else the keys may sign. At most 256 bytes of
	// UTF-8. Default "longwire-ticket".
	Audience string

	// Used remembers what was used. nil: the memory of this process.
	Used Used

	// Limit is how many used tickets the memory of this process holds at once. While
	// it is full every ticket is refused, as a failure (503) and not as a bad login.
	// Default 1,000,000, about 100 MB when full. Negative is an error; it means
	// nothing with Used.
	Limit int

	// Logger gets what goes wrong in Handler. nil: slog.Default().
	Logger *slog.Logger
}

// Authority issues tickets and takes them. Make one with New; all methods are safe
// for concurrent use.
type Authority struct {
	o      Options
	parser *jwt.Parser
	keys   jwt.VerificationKeySet
	// since is before any ticket whose use can be known about.
	since time.Time
	skew  time.Duration
}

// New returns an Authority, or an error that names each bad option.
func New(o Options) (*Authority, error) {
	var errs []error
	bad := func(name, problem string) {
		errs = append(errs, fmt.Errorf("ticket: Options.%s: %s", name, problem))
	}
	if o.Login == nil {
		bad("Login", "missing")
	}
	for i, key := range o.Keys {
		if len(key) < minKey {
			bad(fmt.Sprintf("Keys[%d]", i), fmt.Sprintf("%d bytes: must be at least %d", len(key), minKey))
		}
	}
	if o.Life == 0 {
		o.Life = defaultLife
	}
	if o.Life < minLife || o.Life > MaxLife {
		bad("Life", fmt.Sprintf("%v: must be between %v and %v", o.Life, minLife, MaxLife))
	}
	if o.Audience == "" {
		o.Audience = defaultAudience
	}
	if len(o.Audience) > maxAudience || !utf8.ValidString(o.Audience) {
		bad("Audience", fmt.Sprintf("must be at most %d bytes of UTF-8", maxAudience))
	}
	if o.Limit < 0 {
		bad("Limit", fmt.Sprintf("%d: must not be negative", o.Limit))
	}
	if len(errs) > 0 {
		return nil, errors.Join(errs...)
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if len(o.Keys) == 0 {
		key := make([]byte, minKey)
		_, _ = rand.Read(key) // never fails
		o.Keys = [][]byte{key}
	}
	a := &Authority{skew: skew}
	if o.Used == nil {
		if o.Limit == 0 {
			o.Limit = defaultLimit
		}
		o.Used = newMemory(o.Limit)
		// No tolerance: a clock that is ahead must not make a ticket from before
		// the start look like one from after it.
		a.since, a.skew = time.Now().Truncate(precision), 0
	}
	a.o = o
	for _, key := range o.Keys {
		a.keys.Keys = append(a.keys.Keys, slices.Clone(key))
	}
	a.parser = jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithAudience(o.Audience), jwt.WithIssuedAt(), jwt.WithExpirationRequired(), jwt.WithLeeway(a.skew),
	)
	return a, nil
}

// Issue returns a ticket for id, good for one dial within Options.Life from now. It
// fails for a user whom the server would refuse, and wraps server.ErrUnauthorized
// when the login has ended. The connection lives as long as the login: id.Expires,
// to the millisecond, goes along.
func (a *Authority) Issue(id server.Identity) (string, error) {
	now := time.Now()
	if len(id.User) > wire.MaxUser || !utf8.ValidString(id.User) {
		return "", fmt.Errorf("ticket: user must be at most %d bytes of UTF-8", wire.MaxUser)
	}
	if !id.Expires.IsZero() && !now.Before(id.Expires) {
		return "", refuse("the login has ended")
	}
	return jwt.NewWithClaims(jwt.SigningMethodHS256, &claims{
		RegisteredClaims: jwt.RegisteredClaims{
			ID: rand.Text(), Subject: id.User, Audience: jwt.ClaimStrings{a.o.Audience},
		},
		IssuedAt:  date{now},
		ExpiresAt: date{now.Add(a.o.Life)},
		LoginEnds: date{id.Expires},
	}).SignedString(a.o.Keys[0])
}

// Authenticate is for server.Options.Authenticate. On a WebSocket upgrade it takes
// the ticket and uses it up; on anything else it asks Options.Login. A refused
// ticket is an error that wraps server.ErrUnauthorized; one that comes from Used,
// where it is not known whether the ticket was used, is not.
func (a *Authority) Authenticate(r *http.Request) (server.Identity, error) {
	if !contains(r.Header, "Upgrade", func(token string) bool { return strings.EqualFold(token, "websocket") }) {
		return a.o.Login(r)
	}
	c, err := a.check(ticketOf(r))
	if err != nil {
		return server.Identity{}, err
	}
	first, err := a.o.Used.Use(r.Context(), c.ID, c.ExpiresAt.Add(a.skew))
	switch {
	case err != nil:
		return server.Identity{}, fmt.Errorf("ticket: not known whether it was used: %w", err)
	case !first:
		return server.Identity{}, refuse("used before")
	}
	return server.Identity{User: c.Subject, Expires: c.LoginEnds.Time}, nil
}

// check returns what a good ticket says. It does not use it up.
func (a *Authority) check(text string) (*claims, error) {
	switch {
	case text == "":
		return nil, refuse("none")
	case len(text) > maxTicket:
		return nil, refuse("too long")
	}
	var c claims
	_, err := a.parser.ParseWithClaims(text, &c, func(*jwt.Token) (any, error) { return a.keys, nil })
	if err != nil {
		return nil, refuse(reason(err))
	}
	if c.IssuedAt.Before(a.since) {
		return nil, refuse("issued before the start of what remembers used ones")
	}
	return &c, nil
}

// reason is a text of our own: one of the library's can repeat a piece of the ticket.
func reason(err error) string {
	for _, known := range []error{
		jwt.ErrTokenExpired, jwt.ErrTokenUsedBeforeIssued, jwt.ErrTokenNotValidYet, jwt.ErrTokenInvalidAudience,
		jwt.ErrTokenSignatureInvalid, jwt.ErrTokenRequiredClaimMissing, errLife, errID,
	} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return jwt.ErrTokenMalformed.Error()
}

func refuse(reason string) error {
	return fmt.Errorf("ticket: %s: %w", reason, server.ErrUnauthorized)
}

// ticketOf returns the ticket that a dial brings, "" for none.
func ticketOf(r *http.Request) (text string) {
	if text = r.URL.Query().Get(QueryParameter); text != "" {
		return text
	}
	contains(r.Header, "Sec-WebSocket-Protocol", func(token string) (ok bool) {
		text, ok = strings.CutPrefix(token, SubprotocolPrefix)
		return ok
	})
	return text
}

// contains reports whether the list in a header has a token that is is true for.
func contains(h http.Header, name string, is func(token string) bool) bool {
	for _, list := range h.Values(name) {
		for token := range strings.SplitSeq(list, ",") {
			if is(strings.TrimSpace(token)) {
				return true
			}
		}
	}
	return false
}
