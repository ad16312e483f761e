package reconnect

import (
	"github.com/longwire/longwire/wire"
)

// Gen returns the fencing number of the attempt that is being made, or else the
// highest one known.
func (m *Machine) Gen() uint64 { return m.gen }

// outrank chooses a number higher than above, and not below the clock.
func (m *Machine) outrank(above uint64) {
	m.gen = max(m.gen, above)
	if m.gen >= wire.MaxSeq {
		// No higher number is left: a new session begins anew.
		m.forgetSession()
		m.gen = 0
	}
	m.gen = max(m.gen+1, uint64(max(m.now.UnixMilli(), 0)))
}

// inherit takes over what a relay before this one had come to. Waits and floors
// outlive it; a connection that was live is not a reason to wait.
func (m *Machine) inherit(ev Inherit) {
	if m.account.totals.Sessions > 0 || m.try.phase == phaseWelcome {
		return
	}
	if m.session == "" && ev.Session != "" {
		m.session, m.confirmed = ev.Session, true
		m.heardOf = m.now // at the latest
		m.changed = true
	}
	if !m.userKnown && ev.User != "" {
		m.user, m.userKnown = ev.User, true
	}
	if ev.Attempt > m.attempts() {
		m.failures = ev.Attempt
	}
	left := min(ev.NotBefore.Sub(m.now), 2*maxFloor)
	if left > m.floorLeft() && left > 0 && !ev.NotBefore.IsZero() {
		m.floor.set(m.now, left)
		if m.state == Connecting || m.state == Waiting {
			m.dropTry()
			m.goOnWaiting()
		}
	}
	if m.state == Idle {
		m.inherited = m.floor.on || !ev.Live && m.failures > 0
	}
}

// goOnWaiting waits as the machine would have whose attempts and floor these are.
func (m *Machine) goOnWaiting() {
	floor := max(m.floorLeft(), 0)
	after := floor + m.uniform(kickSpread)
	if floor == 0 {
		after = m.ordinaryWait()
	}
	m.wait(after, floor, "the hub before this one was waiting")
}
