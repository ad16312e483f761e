package reconnect

import "time"

// signal handles a hint from the surroundings. A live link is verified, never
// torn down on a hint; a wait may be cut short.
func (m *Machine) signal(kind SignalKind) {
	if kind == Hidden || kind == Wanted && m.state != Ended {
		return
	}
	switch m.state {
	case Live:
		m.verify(m.p.PingTimeout)
	case Waiting:
		switch kind {
		case Visible:
			m.kick(0)
		case Online:
			// A region comes back online at once: spread its clients.
			m.burst.set(m.now, m.spread)
			m.burstLeft = burstTries
			if !m.kicked {
				m.kick(m.uniform(min(m.spread, max(m.retry.left(m.now), 0))))
			}
		case Offline, Hidden, Wanted:
		}
	case Ended:
		if (kind == Visible || kind == Wanted) && m.cause != CauseClosed && m.revived.take(m.now) {
			m.start("the page is wanted again")
		}
	case Idle, Connecting:
	}
}

// kick shortens the wait to after, or to just above the floor if the server
// set one. Many kicks count as one: an attempt is at most brought forward.
func (m *Machine) kick(after time.Duration) {
	if m.state != Waiting || m.asleep || !m.kicks.take(m.now) {
		return
	}
	m.kicked = true
	if floor := m.floorLeft(); floor > 0 {
		after = floor + m.uniform(kickSpread)
	}
	if after < m.retry.left(m.now) {
		m.retry.set(m.now, after)
		m.changed = true
	}
}

// reauthorize says that there is a new login.
func (m *Machine) reauthorize() {
	m.logins = 0
	switch {
	case m.state == Ended && m.cause == CauseUnauthorized:
		m.start("a new login")
	case m.state == Waiting:
		m.kick(0)
	}
}

// reconnectNow is the explicit wish of the application: no floor holds it back.
func (m *Machine) reconnectNow() {
	switch m.state {
	case Idle, Ended:
		m.inherited = false
		m.start("asked to reconnect")
	case Waiting:
		m.asleep = false
		m.withoutSession()
		m.begin()
	case Live:
		m.verify(m.p.PingTimeout)
	case Connecting:
	}
}
