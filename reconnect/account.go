package reconnect

import "time"

// Totals count what a client has done since it was made.
type Totals struct {
	Attempts  uint64 // dials
	Sessions  uint64 // welcomes
	Bridges   uint64 // of these, beside a connection that drained
	Resumed   uint64 // streams that went on where they stood, after a reconnect
	Replayed  uint64 // events that were missed and came after all
	Gaps      uint64 // streams whose missed events were gone
	Snapshots uint64
	Probes    uint64

	Delivered  uint64 // events
	Duplicates uint64 // events dropped because they were had
	Unwanted   uint64 // events dropped because nobody wanted them, or before an answer
	Holes      uint64 // frames dropped because events before them were missing
	Bad        uint64 // messages of the server that could not be read

	Sent     uint64 // writes of messages, resends included
	Accepted uint64
	Refused  uint64
	NotSent  uint64
	Unknown  uint64

	BytesIn  uint64 // of messages read
	BytesOut uint64 // of messages written

	// Recovery is the time from the loss of a session to the next welcome.
	Recovery Histogram
}

// RecoveryBounds are the upper bounds of the buckets of a Histogram; the last
// bucket has none.
var RecoveryBounds = [...]time.Duration{
	100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond, time.Second, 2500 * time.Millisecond,
	5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 5 * time.Minute,
}

// Histogram counts durations.
type Histogram struct {
	Counts [len(RecoveryBounds) + 1]uint64
	Sum    time.Duration
}

func (h *Histogram) add(d time.Duration) {
	i := 0
	for i < len(RecoveryBounds) && d > RecoveryBounds[i] {
		i++
	}
	h.Counts[i]++
	h.Sum += d
}

// Transition is one change of state.
type Transition struct {
	At      time.Time
	State   State
	Cause   string
	Reason  string
	Attempt int
}

// historySize bounds the transitions that are remembered.
const historySize = 200

// account is what a machine remembers of itself. Nothing in it holds a URL or a
// payload.
type account struct {
	totals  Totals
	history []Transition // a ring once it is full
	oldest  int
	down    deadline // since when there is no session, and when that is no longer calm
	shown   bool     // interrupted
	patient deadline // MaxElapsed
}

func (a *account) remember(t Transition) {
	if len(a.history) < historySize {
		a.history = append(a.history, t)
		return
	}
	a.history[a.oldest] = t
	a.oldest = (a.oldest + 1) % historySize
}

// Totals returns what the machine has done so far.
func (m *Machine) Totals() Totals { return m.account.totals }

// History returns the last 200 changes of state, oldest first.
func (m *Machine) History() []Transition {
	a := &m.account
	return append(append([]Transition(nil), a.history[a.oldest:]...), a.history[:a.oldest]...)
}

// withoutSession notes that there is none from now on.
func (m *Machine) withoutSession() {
	a := &m.account
	if a.down.on {
		return
	}
	a.down.set(m.now, m.p.CalmAfter)
	if m.p.MaxElapsed > 0 {
		a.patient.set(m.now, m.p.MaxElapsed)
	}
}

// withSession notes that there is one again.
func (m *Machine) withSession() {
	a := &m.account
	if a.down.on && a.totals.Sessions > 0 {
		a.totals.Recovery.add(Elapsed(a.down.from, m.now))
	}
	a.totals.Sessions++
	a.down.clear()
	a.patient.clear()
	a.shown = false
}

// grow does what becomes due while there is no session.
func (m *Machine) grow() {
	a := &m.account
	if !a.shown && a.down.due(m.now) {
		a.shown, m.changed = true, true
	}
	if a.patient.due(m.now) && (m.state == Waiting && !m.asleep || m.state == Connecting) {
		m.dropTry()
		m.end(CauseGaveUp, "no session for "+m.p.MaxElapsed.String())
	}
}
