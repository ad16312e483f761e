package reconnect

import (
	"strconv"
	"time"

	"github.com/longwire/longwire/wire"
)

// closed handles the end of a socket by the peer or the network.
func (m *Machine) closed(ev Closed) {
	c := Close{Code: ev.Code, Reason: ev.Reason, Opened: ev.Conn == m.conn}
	switch {
	case ev.Conn == 0:
	case ev.Conn == m.conn && m.try.phase == phaseWelcome:
		// The new connection has taken over already: this is only the end of the
		// old one. The client stays live; if the new one fails, that is the loss.
		m.lastClose = &c
		m.heardOf = m.live.heardAt
		m.forgetConn()
		m.withoutSession()
		m.changed = true
	case ev.Conn == m.conn:
		m.dropTry()
		m.lost(c, m.judge(ev.Code, ev.Reason), m.held())
	case ev.Conn == m.try.conn && m.conn != 0:
		m.tryFailed(closeText(c), &c)
	case ev.Conn == m.try.conn:
		if m.try.phase == phaseWelcome && m.session != "" {
			m.spurned++
		}
		m.try = attempt{}
		m.probe.failures++
		m.lost(c, m.judge(ev.Code, ev.Reason), false)
		if m.state == Waiting {
			m.waitAtLeast(ev.RetryAfter)
		}
	}
}

// abandon leaves the socket of the session for a fault of the link, and tries again.
func (m *Machine) abandon(code int, reason string) {
	m.dropTry()
	m.do(Abandon{m.conn, code, wire.ClipReason(reason)})
	m.lost(Close{Code: code, Reason: reason, Opened: true}, verdict{}, m.held())
}

// held reports whether the session has held for StableAfter.
func (m *Machine) held() bool { return m.conn != 0 && !m.stable.on }

// dropTry gives the attempt up, whatever it has come to.
func (m *Machine) dropTry() {
	if m.try.conn != 0 {
		m.do(Abandon{m.try.conn, wire.CloseLeaving, "leaving"})
	}
	m.try = attempt{}
}

// leave gives every socket up for good.
func (m *Machine) leave(code int, reason string) {
	if m.conn != 0 {
		m.heardOf = m.live.heardAt
		m.do(Abandon{m.conn, code, wire.ClipReason(reason)})
		m.lastClose = &Close{Code: code, Reason: reason, Opened: true}
	} else if m.try.conn != 0 {
		m.lastClose = &Close{Code: code, Reason: reason}
	}
	if m.try.conn != 0 {
		m.do(Abandon{m.try.conn, code, wire.ClipReason(reason)})
	}
	m.try = attempt{}
	m.forgetConn()
}

// lost plans what comes after a socket: after a session that held or not, or
// after an attempt.
func (m *Machine) lost(c Close, v verdict, held bool) {
	if c.Opened {
		m.heardOf = m.live.heardAt
	}
	m.lastClose = &c
	m.blame(v)
	m.forgetConn()
	m.failures++
	m.withoutSession()
	reason := closeText(c)
	switch v.kind {
	case end:
		m.end(v.cause, reason)
		return
	case loginOver:
		m.logins++
		if m.logins >= loginTries {
			m.end(CauseUnauthorized, reason)
			return
		}
		if held {
			m.refused = m.dialled
			m.wait(0, 0, reason)
			return
		}
	case superseded:
		if gen, ok := wire.ParseGenReason(c.Reason); ok {
			m.gen = max(m.gen, gen)
		}
		if m.displaced.take(m.now) {
			m.wait(0, 0, reason)
			return
		}
		// Somebody else keeps taking this session: let them have it.
		m.forgetSession()
	case waitRange:
		m.wait(v.low+m.uniform(v.high-v.low), v.low, reason)
		return
	case retryPlain, tooBig:
	}
	m.wait(m.ordinaryWait(), 0, reason)
}

// forgetConn ends what belongs to the connection of a session.
func (m *Machine) forgetConn() {
	m.conn = 0
	m.stable.clear()
	m.resetConn()
	for _, f := range m.streams {
		f.disconnected()
	}
}

// resetConn drops what was asked and is not answered on one connection, for an end
// and for a move to the next one alike.
func (m *Machine) resetConn() {
	m.bridge.clear()
	m.live.reset()
	clear(m.subs)
	m.box.disconnected()
}

// wait plans the next attempt.
func (m *Machine) wait(after, floor time.Duration, reason string) {
	if m.p.MaxAttempts > 0 && m.failures >= m.p.MaxAttempts {
		m.end(CauseGaveUp, "after "+strconv.Itoa(m.failures)+" attempts; the last one: "+reason)
		return
	}
	m.retry.set(m.now, after)
	if floor > 0 {
		m.floor.set(m.now, floor)
	} else {
		m.floor.clear()
	}
	m.kicked = false
	m.become(Waiting, reason)
	m.maybeProbe()
}

// waitAtLeast obeys a Retry-After of n: U(n, 2n), or the wait that is planned if that
// is longer.
func (m *Machine) waitAtLeast(n time.Duration) {
	n = min(n, maxAsked)
	if n <= 0 {
		return
	}
	if after := n + m.uniform(n); after > m.retry.left(m.now) {
		m.retry.set(m.now, after)
	}
	m.floor.set(m.now, n)
}

// end stops with a cause until somebody starts afresh.
func (m *Machine) end(cause, reason string) {
	m.try = attempt{}
	m.forgetConn()
	m.retry.clear()
	m.floor.clear()
	m.probe.drop()
	m.cause = cause
	m.account.down.clear()
	m.account.patient.clear()
	m.become(Ended, reason)
	// A new login revives an unauthorized client: its messages wait for that
	// until they expire.
	if cause != CauseUnauthorized {
		m.settleAll(cause)
	}
}

func (m *Machine) sleep() {
	if m.state != Connecting && m.state != Live && m.state != Waiting {
		return
	}
	m.leave(wire.CloseLeaving, "leaving")
	m.asleep = true
	m.account.down.clear()
	m.account.patient.clear()
	m.account.shown = false
	m.retry.clear()
	m.probe.drop()
	m.become(Waiting, "asleep until the page comes back")
}

func (m *Machine) wake() {
	if m.asleep && m.state == Waiting {
		m.asleep = false
		m.withoutSession()
		m.retry.set(m.now, max(m.floorLeft(), 0))
		m.become(Waiting, "the page is back")
	}
}

func (m *Machine) floorLeft() time.Duration {
	if !m.floor.on {
		return 0
	}
	return m.floor.left(m.now)
}

func closeText(c Close) string {
	s := "connection closed with " + strconv.Itoa(c.Code)
	if !c.Opened {
		s = "attempt failed with " + strconv.Itoa(c.Code)
	}
	if c.Reason != "" {
		s += ": " + c.Reason
	}
	return s
}
