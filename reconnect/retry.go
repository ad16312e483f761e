package reconnect

import (
	"time"

	"github.com/longwire/longwire/wire"
)

// Bounds on what a server may ask of its clients.
const (
	maxAsked = 5 * time.Minute  // spread, heartbeat, Retry-After, retry of a nack
	maxFloor = 10 * time.Minute // of the range in a close reason
)

// floors of the close codes that ask for time, and how wide to spread above.
const (
	restartFloor  = 5 * time.Second
	restartSpread = 25 * time.Second
	busyFloor     = 15 * time.Second
	busySpread    = 15 * time.Second
)

// Kicks: what shortens a wait.
const (
	kicksPerMinute = 6           // further ones do nothing
	kickSpread     = time.Second // above a floor
	burstTries     = 3           // after online, which comes before the network works
	burstWait      = time.Second // bound of each of these waits
	reviveEvery    = time.Minute // an ended client and visible
	supersededMax  = 3           // redials a minute after 4409
	loginTries     = 3           // 4401 in a row without a welcome
	probeFirst     = 3           // failure that probes first, then at 6, 12, …
	probeEvery     = time.Minute // never twice within
	probeRefusals  = 3           // 403, 404, 410 or a redirect in a row
)

// verdict is what a close code means for the client.
type verdict struct {
	kind  verdictKind
	cause string        // for ends
	low   time.Duration // for waitRange
	high  time.Duration
}

type verdictKind uint8

const (
	retryPlain verdictKind = iota // the ordinary wait
	waitRange                     // a wait from low to high, low is a floor
	loginOver                     // fetch a fresh URL
	superseded                    // a newer connection has the session
	tooBig                        // a message was over the limit
	end
)

// judge maps a close frame of the peer to what to do: the application's rules
// first, then the table "Close codes" of the protocol. Unknown codes are retried.
func (m *Machine) judge(code int, reason string) verdict {
	switch m.p.CloseCodes[code] {
	case CloseRetry:
		return verdict{kind: retryPlain}
	case CloseEnd:
		return verdict{kind: end, cause: CauseRefused}
	case CloseLogin:
		return verdict{kind: loginOver}
	case CloseRestart:
		return m.asked(reason, restartFloor, restartSpread)
	case CloseBusy:
		return m.asked(reason, busyFloor, busySpread)
	}
	switch code {
	case wire.CloseNormal:
		return verdict{kind: end, cause: CauseFinished}
	case wire.ClosePolicy:
		return verdict{kind: end, cause: CausePolicy}
	case wire.CloseBadRequest:
		return verdict{kind: end, cause: CauseBadRequest}
	case wire.CloseForbidden:
		return verdict{kind: end, cause: CauseForbidden}
	case wire.CloseNotFound:
		return verdict{kind: end, cause: CauseNotFound}
	case wire.CloseGone:
		return verdict{kind: end, cause: CauseGone}
	case wire.CloseLoginExpired:
		return verdict{kind: loginOver}
	case wire.CloseNotNewest:
		return verdict{kind: superseded}
	case wire.CloseTooBig:
		return verdict{kind: tooBig}
	case wire.CloseRestart:
		return m.asked(reason, restartFloor, restartSpread)
	case wire.CloseTryLater, wire.CloseTooMany:
		return m.asked(reason, busyFloor, busySpread)
	}
	return verdict{kind: retryPlain}
}

// asked is the wait that a server asks for: the range in the reason, at least
// Base wide, or else from the floor on.
func (m *Machine) asked(reason string, floor, spread time.Duration) verdict {
	low, high, ok := wire.ParseRetryReason(reason)
	if !ok {
		return verdict{kind: waitRange, low: floor, high: floor + max(spread, m.spread)}
	}
	low = min(low, maxFloor)
	high = min(max(high, low+m.p.Base), 2*maxFloor)
	return verdict{kind: waitRange, low: low, high: high}
}

// uniform draws from [0, high).
func (m *Machine) uniform(high time.Duration) time.Duration {
	return time.Duration(m.p.Rand() * float64(high))
}

// ordinaryWait draws the wait after the failure that is being counted (the table
// "Retry" of the protocol): full jitter from true zero.
func (m *Machine) ordinaryWait() time.Duration {
	if m.burst.on && !m.burst.due(m.now) && m.burstLeft > 0 {
		m.burstLeft--
		return m.uniform(min(burstWait, m.spread))
	}
	if !m.confirmed {
		return m.jittered(m.ladder(m.failures - 1))
	}
	if m.failures <= 1 {
		return m.jittered(m.spread)
	}
	return m.jittered(max(2*m.spread, m.ladder(m.failures-1)))
}

// jittered draws a wait below bound by the kind of jitter.
func (m *Machine) jittered(bound time.Duration) time.Duration {
	switch m.p.Jitter {
	case JitterEqual:
		return bound/2 + m.uniform(bound/2)
	case JitterNone:
		return bound
	case JitterFull:
	}
	return m.uniform(bound)
}

// ladder is min(Cap, Base * 2^n) without overflow at any n.
func (m *Machine) ladder(n int) time.Duration {
	if n >= 62 || m.p.Base > m.p.Cap>>n {
		return m.p.Cap
	}
	return m.p.Base << n
}

// deadline is a point in time that is judged by elapsed time.
type deadline struct {
	from  time.Time
	after time.Duration
	on    bool
}

func (d *deadline) set(now time.Time, after time.Duration) { *d = deadline{now, max(after, 0), true} }
func (d *deadline) clear()                                 { *d = deadline{} }

// left is how long until d; not positive means that it is due.
func (d *deadline) left(now time.Time) time.Duration { return d.after - Elapsed(d.from, now) }
func (d *deadline) due(now time.Time) bool           { return d.on && d.left(now) <= 0 }

// at is the time of d as a clock shows it.
func (d *deadline) at() time.Time {
	if !d.on {
		return time.Time{}
	}
	return d.from.Add(d.after)
}

// Elapsed is the time between the two, at least 0: the larger of the monotonic and
// the wall-clock difference, because the monotonic clock stops while a machine
// sleeps, and the wall clock may be set back.
func Elapsed(from, to time.Time) time.Duration {
	return max(to.Sub(from), to.Round(0).Sub(from.Round(0)), 0)
}
