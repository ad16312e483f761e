// Package server is the server's end of Longwire: it numbers events, replays what
// a client missed, and carries messages of clients to the application once.
//
// [New] makes a [Server]; mount it as the http.Handler of the WebSocket endpoint,
// and [Server.Probe] beside it. [Server.Publish] appends an event to a named
// stream, [Server.PublishTo] to the own stream of each session of a user.
//
// docs/OPERATIONS.md says how to run one: mounting, restarts, sizing, metrics, alerts.
//
// Guarantees, towards a client that follows the protocol:
//
//  1. Events of one stream arrive in order, each once per position asked for, with
//     no hole: what cannot be replayed is said (resync, reset) and bridged by a
//     snapshot that names its position, or said as a reset.
//  2. A message runs once within the deduplication window, however often it is
//     resent, and every copy gets the same answer. Messages of one connection run
//     one after the other, in the order they were sent.
//  3. Of the connections of one session the newest, by its fencing number, is the
//     only one that is served.
//  4. Memory is bounded by the options, not by what clients do: a slow reader has no
//     queue, it falls behind in the logs and beyond them gets a snapshot.
//
// # Restarts
//
// Everything is in memory: a restart begins new epochs, which costs each client
// one snapshot, and forgets message ids, which clients are told.
//
// A planned restart of a single node costs neither, with Options.StateFile: a
// program that is told to stop calls [Server.Drain], then [Server.SaveState], then
// [Server.Close], and exits; the [New] of the next one takes everything over. Close
// may come before SaveState too. Publishing fails in between, with ErrClosed or
// ErrSealed: what was refused is to be published to the next server. After a crash,
// or with a file that is not the last server's, it is as without one.
//
// # Errors that clients see
//
// Before the upgrade: 403 for a foreign Origin, 401, 403 and 503 by what
// Authenticate returned, 503 when there is no room, while the node drains and once
// the server is closed; the probe answers the same. After it, close codes: 1013 with
// a time to come back when there is no room (see [Admission]), 4429 too many
// sessions or messages of a user, 1003 binary, 1007 invalid UTF-8, 1009 too big, 4400
// any other malformed frame (the reason names frame and field), 4401 login
// expired, 4403 positions of another user, 4408 no resume in time, 4409 a newer
// connection has the session, 1012 the server drains, 1001 it was closed. A
// connection that takes nothing for WriteTimeout, or says nothing for two heartbeats
// although it was pinged, is dropped without a close frame.
package server
