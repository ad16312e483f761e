package reconnect

import (
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
	inherited bool      // the next start goes on where another machine stopped
	seen      time.Time // when the last event was handled

	conn   uint64 // the socket of the confirmed session, 0 for none
	try    attempt
	fetch  uint64   // number of the last FetchURL
	dials  uint64   // number of the last Dial
	bridge deadline // when to open a second connection beside one that drains

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
	displaced rate   // by 4409
	logins    int    // 4401 in a row without a welcome
	dialled   string // the URL of the last dial
	refused   string // a URL whose login was refused a moment ago

	probe probing

	// The session.
	version   int
	fresh     bool // in a dialect: no message since the session was confirmed
	session   string
	spurned   int // resumes of the session in a row that were answered by a loss
	user      string
	userKnown bool
	gen       uint64
	greeting  wire.Welcome
	spread    time.Duration
	heardOf   time.Time // when the session was last known to live

	streams map[string]*follow
	subs    map[string][]asking // sub frames not answered on this connection, in order

	live    liveness
	box     outbox
	account account
}

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
		subs:      make(map[string][]asking),
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
	if m.conn != 0 && Elapsed(m.seen, now) > 2*liveTick && !m.live.stalled {
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
		if m.try.phase == phaseURL && ev.Attempt == m.fetch {
			m.tryFailed("no URL to dial: "+ev.Err, nil)
		}
	case Opened:
		if m.try.phase == phaseDial && ev.Conn == m.try.conn {
			m.hello()
		}
	case Received:
		m.received(ev)
	case Closed:
		m.closed(ev)
	case ProbeDone:
		m.probeDone(ev)
	case Tick:
	case Signal:
		m.signal(ev.Kind)
	case Send:
		m.send(ev)
	case Cancel:
		m.cancel(ev.ID)
	case Clear:
		for len(m.box.list) > 0 {
			m.cancel(m.box.list[0].id)
		}
	case Wrote:
		if ev.Conn == m.conn && m.conn != 0 {
			m.wrote()
		}
	case Subscribe:
		m.subscribe(ev.Stream, ev.From)
	case Unsubscribe:
		m.unsubscribe(ev.Stream)
	case Positions:
		m.positions(ev.Streams)
	case Inherit:
		m.inherit(ev)
	case Outrank:
		m.outrank(ev.Above)
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
	if m.try.limit.due(m.now) {
		m.timedOut()
	}
	if m.stable.due(m.now) {
		m.stable.clear()
		m.failures = 0
		m.changed = true
	}
	if m.conn != 0 {
		m.checkLiveness()
	}
	if m.conn != 0 {
		m.askBusy()
		m.pump()
		if m.bridge.due(m.now) {
			m.bridge.clear()
			m.begin()
		}
	}
	m.probeTimeout()
	m.grow()
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
	add(m.try.limit)
	add(m.stable)
	if !m.probe.out {
		add(m.retry)
	}
	add(m.probe.limit)
	add(m.box.first)
	if !m.account.shown {
		add(m.account.down)
	}
	if m.state == Connecting || m.state == Waiting && !m.asleep {
		add(m.account.patient)
	}
	if m.conn != 0 {
		add(m.live.idle)
		add(m.live.pong)
		add(m.live.pongBound)
		add(m.box.overdue)
		add(m.box.hold)
		add(m.bridge)
		for _, f := range m.streams {
			add(f.busy)
		}
		add(deadline{from: now, after: liveTick, on: true})
	}
	return max(left, 0), ok
}

func (m *Machine) do(a Action) {
	t := &m.account.totals
	switch a := a.(type) {
	case Write:
		t.BytesOut += uint64(len(a.Data))
	case Settle:
		switch a.Outcome {
		case Accepted:
			t.Accepted++
		case Refused:
			t.Refused++
		case NotSent:
			t.NotSent++
		case Unknown:
			t.Unknown++
		}
	}
	m.out = append(m.out, a)
}

func (m *Machine) write(f wire.Frame) { m.do(Write{m.conn, f.Append(nil)}) }

func (m *Machine) problem(text string) { m.do(Problem{text}) }

func (m *Machine) become(s State, reason string) {
	if m.state != s {
		m.since = m.now
		m.account.remember(Transition{m.now, s, m.cause, reason, m.failures})
	}
	m.state, m.reason, m.changed = s, reason, true
}

// rate allows max events per duration.
type rate struct {
	per  time.Duration
	max  int
	used []time.Time
}

// take reports whether one more is allowed now, and counts it if so.
func (r *rate) take(now time.Time) bool {
	for len(r.used) > 0 && Elapsed(r.used[0], now) >= r.per {
		r.used = r.used[1:]
	}
	if len(r.used) >= r.max {
		return false
	}
	r.used = append(r.used, now)
	return true
}

// State returns the state alone of what Status says.
func (m *Machine) State() State { return m.state }

// attempts counts the attempts since the last stable session.
func (m *Machine) attempts() int {
	if m.state == Connecting {
		return m.failures + 1
	}
	return m.failures
}

// Status returns where the machine stands.
func (m *Machine) Status() Status {
	s := Status{
		State: m.state, Since: m.since, Cause: m.cause, Reason: m.reason, Hint: m.hint,
		Interrupted: m.account.shown || m.state == Ended, Stale: m.live.stale, RTT: m.live.rtt, Attempt: m.attempts(), NextRetry: m.retry.at(), Floor: m.floor.at(), LastClose: m.lastClose,
		Session: m.session, User: m.user, Pending: len(m.box.list),
		Streams: make(map[string]StreamStatus, len(m.streams)),
	}
	for name, f := range m.streams {
		s.Streams[name] = StreamStatus{f.state, f.pos, f.err}
	}
	return s
}
