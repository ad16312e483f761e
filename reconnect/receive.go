package reconnect

import (
	"strconv"
	"time"

	"github.com/longwire/longwire/wire"
)

// received handles one message of the current socket. A message that cannot be
// read costs the connection: an event may have been in it, and asking again on
// the same connection could bring the same bytes for ever, while a reconnect
// waits. No position moves.
func (m *Machine) received(ev Received) {
	m.heard()
	if ev.Binary {
		m.bad("a binary message")
		return
	}
	frames, err := wire.Decode(ev.Data)
	if err != nil {
		m.bad(err.Error())
		return
	}
	var text []byte
	if len(frames) == 1 {
		text = ev.Data
	}
	for _, f := range frames {
		if m.conn != ev.Conn {
			return // a frame before this one ended the connection
		}
		m.frame(f, text)
	}
}

// bad leaves the connection because of what arrived on it.
func (m *Machine) bad(what string) {
	m.problem("bad message from the server: " + what)
	m.abandon(wire.CloseBadRequest, what)
}

func (m *Machine) frame(f wire.Frame, text []byte) {
	switch f := f.(type) {
	case wire.Unknown:
		return
	case wire.Welcome:
		m.welcome(f, text)
		return
	}
	if m.phase != phaseLive {
		m.bad(f.Type() + " before the welcome")
		return
	}
	switch f := f.(type) {
	case wire.Event:
		m.events(f.Stream, f.Seq, 1, f, text)
	case wire.Events:
		m.events(f.Stream, f.From, uint64(len(f.Data)), f, text)
	case wire.Subbed:
		m.subbed(f, text)
	case wire.Snapshot:
		m.snapshot(f, text)
	case wire.Reset:
		m.resetStream(f, text)
	case wire.Ack:
		m.acked(f)
	case wire.Nack:
		m.nacked(f)
	case wire.Heartbeat:
		m.announced(f)
	case wire.Pong:
		m.ponged(f.N)
	case wire.Drain:
		// A notice. What counts is the close that follows.
	default:
		m.bad(f.Type() + " is a frame of clients")
	}
}

// welcome confirms the session.
func (m *Machine) welcome(f wire.Welcome, text []byte) {
	if m.phase != phaseWelcome {
		m.bad("a second welcome")
		return
	}
	switch {
	case f.V == 0:
		// A server of the base frames: the session id stands for the epoch and
		// for the memory of message ids.
		f.Own.Epoch, f.DedupeID, text = f.Session, f.Session, nil
		f.DedupeMs = int64(24 * time.Hour / time.Millisecond)
	case m.userKnown && f.User != m.user:
		m.leave(wire.CloseNormal, CauseIdentityChanged)
		m.end(CauseIdentityChanged, "the server knows this login as another user")
		return
	default:
		m.user, m.userKnown = f.User, true
	}
	m.version, m.greeting = f.V, f
	m.phase = phaseLive
	m.limit.clear()
	m.stable.set(m.now, m.p.StableAfter)
	m.session, m.gen = f.Session, max(m.gen, f.Gen)
	m.confirmed = true
	m.logins = 0
	m.hint = ""
	m.probe.welcomed()
	m.spread = clampMs(f.Spread, wire.DefaultSpread, time.Millisecond)
	m.burst.clear()
	m.live.timeout = m.p.IdleTimeout
	if f.Heartbeat > 0 && m.live.timeout == 0 {
		m.live.timeout = clampMs(f.Heartbeat, 0, 100*time.Millisecond) * 5 / 2
	}
	m.heard()
	m.become(Live, "connected")
	m.do(Deliver{Frame: f, Text: text})
	m.answers(f)
	m.report() // before the events that came in the same message
	m.reconcile(f)
}

// clampMs reads a duration in ms that a server names: from low to maxAsked.
func clampMs(ms int64, def, low time.Duration) time.Duration {
	if ms == 0 {
		return def
	}
	return max(time.Duration(min(ms, maxAsked.Milliseconds()))*time.Millisecond, low)
}

func (m *Machine) holeText(stream string, at, want uint64) string {
	return "hole in stream " + strconv.Quote(stream) + ": got " + strconv.FormatUint(at, 10) + " instead of " + strconv.FormatUint(want, 10)
}
