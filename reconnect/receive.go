package reconnect

import (
	"time"

	"github.com/longwire/longwire/wire"
)

// received handles one message. One that cannot be read costs the connection: an
// event may have been in it, and asking again on the same connection could bring
// the same bytes for ever, while a reconnect waits. No position moves.
func (m *Machine) received(ev Received) {
	switch {
	case ev.Conn == 0:
		return
	case ev.Conn == m.conn:
		m.heard()
	case ev.Conn != m.try.conn || m.try.phase != phaseWelcome:
		return
	}
	if ev.Frame != nil {
		m.account.totals.BytesIn += uint64(ev.Size) //nolint:gosec // a length
		m.take(ev.Conn, ev.Frame, ev.Data)
		return
	}
	m.account.totals.BytesIn += uint64(len(ev.Data))
	if m.p.Dialect != nil {
		if ev.Binary {
			m.problem("a binary message, which is not delivered")
		} else {
			m.foreign(ev.Conn, ev.Data)
		}
		return
	}
	if ev.Binary {
		m.bad(ev.Conn, "a binary message")
		return
	}
	frames, err := wire.Decode(ev.Data)
	if err != nil {
		m.bad(ev.Conn, err.Error())
		return
	}
	var text []byte
	if len(frames) == 1 {
		text = ev.Data
	}
	for _, f := range frames {
		m.take(ev.Conn, f, text)
	}
}

// take takes a frame of a connection, unless one before it has ended that.
func (m *Machine) take(conn uint64, f wire.Frame, text []byte) {
	switch conn {
	case m.conn:
		m.frame(f, text)
	case m.try.conn:
		m.greet(f, text)
	}
}

// bad leaves a connection because of what arrived on it.
func (m *Machine) bad(conn uint64, what string) {
	m.account.totals.Bad++
	m.problem("bad message from the server: " + what)
	if conn == m.conn {
		m.abandon(wire.CloseBadRequest, what)
	} else {
		m.giveUpTry(wire.CloseBadRequest, what)
	}
}

// greet takes the first frame of a connection, which must be the welcome.
func (m *Machine) greet(f wire.Frame, text []byte) {
	switch f := f.(type) {
	case wire.Unknown:
	case wire.Welcome:
		m.welcome(f, text)
	default:
		m.bad(m.try.conn, f.Type()+" before the welcome")
	}
}

// frame takes a frame of the session's connection.
func (m *Machine) frame(f wire.Frame, text []byte) {
	switch f := f.(type) {
	case wire.Unknown:
	case wire.Event:
		m.storeStale(0)
		m.events(f.Stream, f.Seq, 1, f, text)
	case wire.Events:
		m.storeStale(0)
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
		m.drain(f)
	case wire.Welcome:
		m.bad(m.conn, "a second welcome")
	default:
		m.bad(m.conn, f.Type()+" is a frame of clients")
	}
}

// welcome confirms the session, on its first connection or on the next one.
func (m *Machine) welcome(f wire.Welcome, text []byte) {
	switch {
	case m.p.Dialect != nil:
		// It remembers no ids: what was written and not acknowledged is unknown.
	case f.V == 0:
		// A server of the base frames: the session id stands for the epoch and
		// for the memory of message ids.
		f.Own.Epoch, f.DedupeID, text = f.Session, f.Session, nil
		f.DedupeMs = int64(24 * time.Hour / time.Millisecond)
		if f.Own.Resync {
			f.Own.First = f.Own.Seq + 1 // it names none, and covers nobody
		}
	case m.userKnown && f.User != m.user:
		m.leave(wire.CloseNormal, CauseIdentityChanged)
		m.end(CauseIdentityChanged, "the server knows this login as another user")
		return
	default:
		m.user, m.userKnown = f.User, true
	}
	if m.try.fresh {
		m.forgetSession()
	}
	m.spurned = 0
	again := m.earlier(&f)
	if len(again) > 0 {
		text = nil
	}
	m.takeOver()
	m.withSession()
	m.version, m.greeting = f.V, f
	m.stable.set(m.now, m.p.StableAfter)
	m.session, m.gen = f.Session, max(m.gen, f.Gen)
	m.confirmed = true
	m.logins = 0
	m.hint = ""
	m.probe.reset()
	m.spread = clampMs(f.Spread, wire.DefaultSpread, time.Millisecond)
	m.burst.clear()
	m.live.timeout = m.p.IdleTimeout
	if f.Heartbeat > 0 && m.live.timeout == 0 {
		m.live.timeout = clampMs(f.Heartbeat, 0, 100*time.Millisecond) * 5 / 2
	}
	m.heard()
	m.become(Live, "connected")
	m.do(Deliver{Frame: f, Text: text})
	m.answers(f, again)
	m.report() // before the events that came in the same message
	m.reconcile(f)
}

// takeOver makes the connection of the attempt that of the session. The one
// before it, if it still is there, is left: what came on it has counted until now.
func (m *Machine) takeOver() {
	if m.conn != 0 {
		m.account.totals.Bridges++
		m.do(Abandon{m.conn, wire.CloseNormal, "moved"})
	}
	m.conn, m.try = m.try.conn, attempt{}
	m.resetConn()
}

// clampMs reads a duration in ms that a server names: from low to maxAsked.
func clampMs(ms int64, def, low time.Duration) time.Duration {
	if ms == 0 {
		return def
	}
	return max(time.Duration(min(ms, maxAsked.Milliseconds()))*time.Millisecond, low)
}
