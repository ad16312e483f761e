package reconnect

import (
	"strconv"
	"time"

	"github.com/longwire/longwire/wire"
)

// Machine decides everything a client does: when to dial and how long to wait,
// what to ask for, what to deliver, when a link is dead, when to give up. It is
// a plain value without goroutine, clock, I/O or randomness of its own: a driver
// tells it events with the time they happened, and does the actions it gets back.
//
// A Machine is not safe for concurrent use.
type Machine struct {
	p   Policy
	now time.Time // of the event being handled
	out []Action

	state     State
	since     time.Time
	cause     string
	reason    string
	hint      string
	lastClose *Close
	changed   bool // report at the end of Handle
	asleep    bool
	seen      time.Time // when the last event was handled

	// The attempt under way.
	phase    phase
	attempt  uint64 // number of the last FetchURL
	conn     uint64 // the current socket, 0 for none
	lastConn uint64
	limit    deadline // of the phase

	// Why and how long to wait.
	failures  int // since the last stable session
	confirmed bool
	stable    deadline
	retry     deadline
	floor     deadline
	kicked    bool // this wait was shortened
	kicks     rate
	burst     deadline
	burstLeft int
	revived   rate
	displaced rate // by 4409
	logins    int  // 4401 in a row without a welcome

	probe probing

	// The session.
	version   int
	session   string
	user      string
	userKnown bool
	gen       uint64
	greeting  wire.Welcome
	spread    time.Duration
	heardOf   time.Time // when the session was last known to live

	streams map[string]*follow
	asked   map[string]int // sub frames not answered on this connection

	live liveness
	box  outbox
}

type phase uint8

const (
	phaseNone phase = iota
	phaseURL
	phaseDial
	phaseWelcome
	phaseLive
)

// NewMachine returns a machine in state Idle, or an error that names every field
// of the policy that is wrong.
func NewMachine(p Policy) (*Machine, error) {
	p, err := p.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Machine{
		p:         p,
		user:      p.Identity,
		userKnown: p.Identity != "",
		spread:    wire.DefaultSpread,
		streams:   make(map[string]*follow),
		asked:     make(map[string]int),
		box:       outbox{byID: make(map[string]*message), window: wire.DefaultWindow},
		kicks:     rate{per: time.Minute, max: kicksPerMinute},
		revived:   rate{per: reviveEvery, max: 1},
		displaced: rate{per: time.Minute, max: supersededMax},
	}, nil
}

// Policy returns the policy with its defaults.
func (m *Machine) Policy() Policy { return m.p }

// Handle tells the machine what happened at now and returns what to do, in
// order. The slice is valid until the next call. Events about sockets, URLs and
// probes that are no longer current do nothing.
func (m *Machine) Handle(now time.Time, ev Event) []Action {
	m.now = now
	m.out = m.out[:0]
	// Ticks come every few seconds while live. A longer pause means that the
	// machine slept or that timers were throttled: what has arrived meanwhile is
	// in the driver's queue and proves the link; if nothing has, a ping does.
	if m.state == Live && elapsed(m.seen, now) > 2*liveTick && !m.live.stalled {
		m.verify(m.p.PingTimeout)
	}
	m.seen = now
	m.dispatch(ev)
	m.tick()
	m.report()
	return m.out
}

// report says where the machine stands, if that has changed.
func (m *Machine) report() {
	if m.changed {
		m.changed = false
		m.do(Report{m.Status()})
	}
}

//nolint:cyclop // one case for each event
func (m *Machine) dispatch(ev Event) {
	switch ev := ev.(type) {
	case Start:
		m.start("started")
	case Stop:
		m.leave(wire.CloseNormal, "closed")
		m.end(CauseClosed, "closed by the application")
	case Sleep:
		m.sleep()
	case Wake:
		m.wake()
	case URLReady:
		m.urlReady(ev)
	case URLFailed:
		if m.phase == phaseURL && ev.Attempt == m.attempt {
			m.fail("no URL to dial: " + ev.Err)
		}
	case Opened:
		if m.phase == phaseDial && ev.Conn == m.conn {
			m.hello()
		}
	case Received:
		if ev.Conn == m.conn && m.conn != 0 {
			m.received(ev)
		}
	case Closed:
		if ev.Conn == m.conn && m.conn != 0 {
			m.closed(ev.Code, ev.Reason)
		}
	case ProbeDone:
		m.probeDone(ev)
	case Tick:
	case Signal:
		m.signal(ev.Kind)
	case Send:
		m.send(ev)
	case Cancel:
		m.cancel(ev.ID)
	case Subscribe:
		m.subscribe(ev.Stream, ev.From)
	case Unsubscribe:
		m.unsubscribe(ev.Stream)
	case Positions:
		m.positions(ev.Streams)
	case Reauthorize:
		m.reauthorize()
	case DialNow:
		m.reconnectNow()
	case Stalled:
		m.live.stalled = ev.On
		m.heard()
	}
}

// tick does what has become due.
func (m *Machine) tick() {
	m.expire()
	if m.limit.due(m.now) {
		m.timedOut()
	}
	if m.stable.due(m.now) {
		m.stable.clear()
		m.failures = 0
		m.changed = true
	}
	if m.state == Live {
		m.checkLiveness()
	}
	if m.state == Live {
		m.askBusy()
		m.pump()
	}
	m.probeTimeout()
	if m.state == Waiting && m.retry.due(m.now) && !m.probe.out {
		m.begin()
	}
}

// Next returns how long until the machine wants a Tick; false when it waits for
// nothing but events.
func (m *Machine) Next(now time.Time) (time.Duration, bool) {
	left, ok := time.Duration(0), false
	add := func(d deadline) {
		if l := d.left(now); d.on && (!ok || l < left) {
			left, ok = l, true
		}
	}
	add(m.limit)
	add(m.stable)
	if !m.probe.out {
		add(m.retry)
	}
	add(m.probe.limit)
	add(m.box.first)
	if m.state == Live {
		add(m.live.idle)
		add(m.live.pong)
		add(m.live.pongBound)
		add(m.box.overdue)
		add(m.box.hold)
		for _, f := range m.streams {
			add(f.busy)
		}
		add(deadline{from: now, after: liveTick, on: true})
	}
	return max(left, 0), ok
}

func (m *Machine) do(a Action) { m.out = append(m.out, a) }

func (m *Machine) write(f wire.Frame) { m.do(Write{m.conn, f.Append(nil)}) }

func (m *Machine) problem(text string) { m.do(Problem{text}) }

func (m *Machine) become(s State, reason string) {
	if m.state != s {
		m.since = m.now
	}
	m.state, m.reason, m.changed = s, reason, true
}

// start begins, from idle or afresh from an end.
func (m *Machine) start(reason string) {
	if m.state != Idle && m.state != Ended {
		return
	}
	m.cause, m.asleep = "", false
	m.failures, m.logins, m.confirmed = 0, 0, false
	m.probe.reset()
	m.floor.clear()
	m.become(Waiting, reason)
	m.begin()
}

// begin starts one attempt. Every path to a dial leads here, so that each one
// gets a fresh URL.
func (m *Machine) begin() {
	m.retry.clear()
	m.floor.clear()
	m.kicked = false
	m.phase = phaseURL
	m.attempt++
	m.limit.set(m.now, m.p.URLTimeout)
	m.become(Connecting, "fetching the URL")
	m.do(FetchURL{m.attempt})
}

func (m *Machine) urlReady(ev URLReady) {
	if m.phase != phaseURL || ev.Attempt != m.attempt {
		return
	}
	m.phase = phaseDial
	m.lastConn++
	m.conn = m.lastConn
	m.limit.set(m.now, m.p.DialTimeout)
	m.become(Connecting, "dialling")
	m.do(Dial{m.conn, ev.URL})
}

// hello sends the resume frame.
func (m *Machine) hello() {
	m.phase = phaseWelcome
	m.limit.set(m.now, m.p.WelcomeTimeout)
	m.become(Connecting, "waiting for the welcome")
	if ms := m.now.UnixMilli(); ms > 0 {
		m.gen = max(m.gen+1, uint64(ms))
	} else {
		m.gen++
	}
	f := wire.Resume{V: wire.Version, Session: m.session, Gen: m.gen, Batch: true}
	if m.userKnown {
		f.User = m.user
	}
	if m.session != "" {
		f.Away = elapsed(m.heardOf, m.now).Milliseconds()
	}
	m.ask(&f)
	m.write(f)
}

func (m *Machine) timedOut() {
	switch m.phase {
	case phaseURL:
		m.fail("the URL callback did not answer within " + m.p.URLTimeout.String())
	case phaseDial:
		m.abandon(wire.CloseNoSignOfLife, "the socket did not open within "+m.p.DialTimeout.String())
	case phaseWelcome:
		m.abandon(wire.CloseNoSignOfLife, "no welcome within "+m.p.WelcomeTimeout.String())
	case phaseNone, phaseLive:
		m.limit.clear()
	}
}

// abandon leaves the current socket for a fault of the link, and tries again.
func (m *Machine) abandon(code int, reason string) {
	m.do(Abandon{m.conn, code, wire.ClipReason(reason)})
	m.lost(Close{Code: code, Reason: reason, Opened: m.phase == phaseLive}, verdict{})
}

// leave gives the current socket up, if there is one, for good.
func (m *Machine) leave(code int, reason string) {
	if m.conn != 0 {
		m.do(Abandon{m.conn, code, wire.ClipReason(reason)})
		m.lastClose = &Close{Code: code, Reason: reason, Opened: m.phase == phaseLive}
	}
	m.forgetConn()
}

// closed handles the close of the current socket by the peer or the network.
func (m *Machine) closed(code int, reason string) {
	m.lost(Close{Code: code, Reason: reason, Opened: m.phase == phaseLive}, judge(code, reason, m.spread, m.p.Base))
}

// fail counts a failure before there was a socket.
func (m *Machine) fail(reason string) {
	m.forgetConn()
	m.failures++
	m.wait(m.ordinaryWait(), 0, reason)
}

// lost handles the loss of the current socket.
func (m *Machine) lost(c Close, v verdict) {
	wasLive := m.phase == phaseLive
	held := wasLive && !m.stable.on
	if wasLive {
		m.heardOf = m.live.heardAt
	}
	m.lastClose = &c
	m.blame(v)
	m.forgetConn()
	m.failures++
	if !wasLive {
		m.probe.failures++
	}
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

// forgetConn ends what belongs to one connection.
func (m *Machine) forgetConn() {
	m.conn = 0
	m.phase = phaseNone
	m.limit.clear()
	m.stable.clear()
	m.live.reset()
	clear(m.asked)
	for _, f := range m.streams {
		f.disconnected()
	}
	m.box.disconnected()
}

// wait plans the next attempt.
func (m *Machine) wait(after, floor time.Duration, reason string) {
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

// end stops with a cause until somebody starts afresh.
func (m *Machine) end(cause, reason string) {
	m.forgetConn()
	m.retry.clear()
	m.floor.clear()
	m.probe.drop()
	m.cause = cause
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
	if m.phase == phaseLive {
		m.heardOf = m.live.heardAt
	}
	m.leave(wire.CloseLeaving, "leaving")
	m.asleep = true
	m.retry.clear()
	m.probe.drop()
	m.become(Waiting, "asleep until the page comes back")
}

func (m *Machine) wake() {
	if m.asleep && m.state == Waiting {
		m.asleep = false
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

// rate allows max events per duration.
type rate struct {
	per  time.Duration
	max  int
	used []time.Time
}

// take reports whether one more is allowed now, and counts it if so.
func (r *rate) take(now time.Time) bool {
	for len(r.used) > 0 && elapsed(r.used[0], now) >= r.per {
		r.used = r.used[1:]
	}
	if len(r.used) >= r.max {
		return false
	}
	r.used = append(r.used, now)
	return true
}

// Status returns where the machine stands.
func (m *Machine) Status() Status {
	s := Status{
		State: m.state, Since: m.since, Cause: m.cause, Reason: m.reason, Hint: m.hint,
		Attempt: m.failures, NextRetry: m.retry.at(), Floor: m.floor.at(), LastClose: m.lastClose,
		Session: m.session, User: m.user, Pending: len(m.box.list),
		Streams: make(map[string]StreamStatus, len(m.streams)),
	}
	if m.state == Connecting {
		s.Attempt++
	}
	for name, f := range m.streams {
		s.Streams[name] = StreamStatus{f.state, f.pos, f.err}
	}
	return s
}
