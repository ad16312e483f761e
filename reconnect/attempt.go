package reconnect

import "github.com/longwire/longwire/wire"

// attempt is one way from a URL to a welcome. Without a session it is how the
// client connects; beside one that drains it is a bridge.
type attempt struct {
	phase phase
	// fresh: the session is not offered, in case that is why no welcome comes.
	fresh bool
	conn  uint64
	limit deadline // of the phase
}

// freshAfter is how many losses right after a resume make the next attempt one
// without the session. If that gets no welcome either, the session is not at fault
// and is offered again.
const freshAfter = 4

type phase uint8

const (
	phaseNone phase = iota
	phaseURL
	phaseDial
	phaseWelcome // resume is sent
)

// start begins, from idle or afresh from an end.
func (m *Machine) start(reason string) {
	if m.state != Idle && m.state != Ended {
		return
	}
	m.cause, m.asleep = "", false
	if !m.inherited {
		m.failures, m.confirmed = 0, false
		m.floor.clear()
	}
	m.logins = 0
	m.probe.reset()
	m.refused = ""
	m.become(Waiting, reason)
	m.withoutSession()
	if m.inherited {
		m.inherited = false
		m.goOnWaiting()
		return
	}
	m.begin()
}

// begin starts one attempt. Every path to a dial leads here, so that each one
// gets a fresh URL.
func (m *Machine) begin() {
	m.retry.clear()
	m.floor.clear()
	m.kicked = false
	m.fetch++
	m.outrank(m.gen)
	m.try = attempt{phase: phaseURL}
	m.try.limit.set(m.now, m.p.URLTimeout)
	m.connecting("fetching the URL")
	m.do(FetchURL{m.fetch})
}

// connecting says so, unless a session goes on meanwhile.
func (m *Machine) connecting(reason string) {
	if m.conn == 0 {
		m.become(Connecting, reason)
	}
}

func (m *Machine) urlReady(ev URLReady) {
	if m.try.phase != phaseURL || ev.Attempt != m.fetch {
		return
	}
	if m.refused != "" && ev.URL == m.refused && m.conn == 0 {
		// The login that was just refused is no fresh one: no reason to hurry.
		m.refused = ""
		m.tryFailed("the URL callback offered the URL that was just refused", nil)
		return
	}
	m.refused, m.dialled = "", ev.URL
	m.account.totals.Attempts++
	m.dials++
	m.try = attempt{phase: phaseDial, conn: m.dials}
	m.try.limit.set(m.now, m.p.DialTimeout)
	m.connecting("dialling")
	m.do(Dial{m.try.conn, ev.URL})
}

// hello sends the resume frame.
func (m *Machine) hello() {
	m.try.phase = phaseWelcome
	m.try.limit.set(m.now, m.p.WelcomeTimeout)
	m.connecting("waiting for the welcome")
	if m.p.Dialect != nil {
		m.speak(m.p.Dialect)
		return
	}
	m.try.fresh = m.session != "" && m.spurned >= freshAfter && m.spurned%freshAfter == 0
	f := wire.Resume{V: wire.Version, Session: m.session, Gen: m.gen, Batch: true}
	if m.userKnown {
		f.User = m.user
	}
	if m.session != "" && m.conn == 0 {
		f.Away = Elapsed(m.heardOf, m.now).Milliseconds()
	}
	m.ask(&f)
	if m.try.fresh {
		f.Session, f.Own, f.Away = "", wire.Want{}, 0
		if own := m.streams[""]; own != nil {
			own.asked = wire.Want{}
		}
	}
	m.do(Write{m.try.conn, f.Append(nil)})
}

func (m *Machine) timedOut() {
	switch m.try.phase {
	case phaseURL:
		m.tryFailed("the URL callback did not answer within "+m.p.URLTimeout.String(), nil)
	case phaseDial:
		m.giveUpTry(wire.CloseNoSignOfLife, "the socket did not open within "+m.p.DialTimeout.String())
	case phaseWelcome:
		m.giveUpTry(wire.CloseNoSignOfLife, "no welcome within "+m.p.WelcomeTimeout.String())
	case phaseNone:
	}
}

// giveUpTry leaves the socket of the attempt.
func (m *Machine) giveUpTry(code int, reason string) {
	m.do(Abandon{m.try.conn, code, wire.ClipReason(reason)})
	m.tryFailed(reason, &Close{Code: code, Reason: reason})
}

// tryFailed ends an attempt: c is how its socket ended, nil if there was none. A
// bridge that fails is no failure: the old connection stays in use.
func (m *Machine) tryFailed(reason string, c *Close) {
	m.try = attempt{}
	switch {
	case m.conn != 0:
		m.problem("no second connection beside the first: " + reason)
	case c == nil:
		m.failures++
		m.wait(m.ordinaryWait(), 0, reason)
	default:
		m.probe.failures++
		m.lost(*c, verdict{}, false)
	}
}

// drain opens a second connection beside the one whose node goes away, once.
func (m *Machine) drain(f wire.Drain) {
	if m.try.phase == phaseNone && !m.bridge.on {
		m.bridge.set(m.now, m.uniform(clampMs(f.Within, 0, 0)/2))
	}
}
