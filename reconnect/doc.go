// Package reconnect is the client: it keeps one WebSocket to a Longwire server
// alive and lossless.
//
// [Machine] decides and does nothing; a driver acts. [Client] is the driver for
// native programs; the hub in package wasm is the one for browsers.
//
// What a client guarantees while it runs:
//
//  1. Order. The events of a stream are delivered in the order of their numbers,
//     each exactly one above the last.
//  2. Duplicates. No event is delivered twice.
//  3. Loss. No event is skipped in silence: what the server can no longer replay
//     is said as a gap, and bridged by a snapshot where the stream has one.
//  4. Sends. A message settles exactly once, as accepted, refused, not sent or
//     outcome unknown. Its id is the same on every resend. What was reported as
//     not sent never reaches the wire later.
//  5. Storms. Waits are drawn with full jitter; a wait that the server asked for
//     is never undercut but by an explicit wish of the application.
//  6. Logins. Every dial, on every path, gets a fresh URL.
//  7. Memory. The outbox, and what is delivered but not yet handled, is bounded.
//
// Positions and unsettled messages live in memory: a new process starts anew.
package reconnect
