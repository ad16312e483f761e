package reconnect

import (
	"time"

	"github.com/longwire/longwire/wire"
)

// State is where a client stands.
type State uint8

// States. Every path ends in Live, in Waiting for a stated time, or in Ended
// with a cause.
const (
	// Idle: not started.
	Idle State = iota
	// Connecting: fetching a URL, dialling, or waiting for the welcome.
	Connecting
	// Live: the session is confirmed.
	Live
	// Waiting: for the next attempt, or to be woken.
	Waiting
	// Ended: nothing more happens until it is started again.
	Ended
)

func (s State) String() string {
	switch s {
	case Idle:
		return "idle"
	case Connecting:
		return "connecting"
	case Live:
		return "live"
	case Waiting:
		return "waiting"
	case Ended:
		return "ended"
	}
	return "invalid"
}

// Causes of an end.
const (
	CauseClosed          = "closed"           // Stop
	CauseFinished        = "finished"         // close code 1000
	CausePolicy          = "policy"           // 1008
	CauseBadRequest      = "bad request"      // 4400
	CauseUnauthorized    = "unauthorized"     // 4401 three times, or the probe says so
	CauseForbidden       = "forbidden"        // 4403, or the probe says so
	CauseNotFound        = "not found"        // 4404, or the probe says so
	CauseGone            = "gone"             // 4410, or the probe says so
	CauseIdentityChanged = "identity changed" // the welcome is for another user
	CauseGaveUp          = "gave up"          // MaxAttempts or MaxElapsed
	CauseRefused         = "refused"          // a close code that Policy.CloseCodes ends at
)

// Status says what happened, what will happen next and when.
type Status struct {
	State State
	Since time.Time // when State was entered
	// Cause is one of the Cause constants while State is Ended.
	Cause string
	// Reason is a sentence on why the client is where it is.
	Reason string
	// Hint is what the last probe suggests, empty when there is nothing to say.
	Hint string
	// Interrupted says that there has been no session for Policy.CalmAfter, or
	// that there will be none: what a page shows to people.
	Interrupted bool
	// Stale is for how long the server has not heard from the store behind it, as its
	// last heartbeat said, 0 while it does: the connection is fine, and nothing new can
	// come of it until the store is back.
	Stale time.Duration
	// RTT is how long the server took to answer the last ping of this connection, 0
	// when it has answered none: the client pings when in doubt, or when it is told to
	// reconnect and is live.
	RTT time.Duration
	// Attempt counts the attempts since the last stable session, 0 for none.
	Attempt int
	// NextRetry is when the next attempt starts, zero when none is planned.
	NextRetry time.Time
	// Floor is the earliest time the server allows for it, zero when it set none.
	Floor time.Time
	// LastClose is how the last connection ended, nil when none has.
	LastClose *Close
	Session   string
	User      string
	Pending   int // messages not settled
	Streams   map[string]StreamStatus
}

// Close is how a connection ended.
type Close struct {
	Code   int // 1005 no code was sent, 1006 no close frame came, or the peer's
	Reason string
	// Opened says whether there was a session: false is a failed attempt.
	Opened bool
}

// StreamStatus is the place of the client in one stream.
type StreamStatus struct {
	State    StreamState
	Position wire.Want
	Error    string // why it is Refused
}

// StreamState is how a stream is followed.
type StreamState uint8

// States of a stream.
const (
	// Asking: wanted, and not yet answered on this connection.
	Asking StreamState = iota
	// Following: what comes next is Position.After + 1.
	Following
	// Resyncing: the position is void, a snapshot or a reset is under way.
	Resyncing
	// StreamRefused: the server said no.
	StreamRefused
)

func (s StreamState) String() string {
	switch s {
	case Asking:
		return "asking"
	case Following:
		return "following"
	case Resyncing:
		return "resyncing"
	case StreamRefused:
		return "refused"
	}
	return "invalid"
}
