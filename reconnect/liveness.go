package reconnect

import (
	"time"

	"github.com/longwire/longwire/wire"
)

const (
	// liveTick is how often a live machine looks at its clocks, so that a wake
	// from sleep is noticed on whichever of the two went on.
	liveTick = 5 * time.Second
	// lateTimer is how late a timer may come and still be believed.
	lateTimer = time.Second
	// largeFrameRate is the slowest link that a large frame is waited for on.
	largeFrameRate = 64 << 10 // bytes a second
	maxLargeFrame  = 3 * time.Minute
	// minPongBound is how long frames that arrive can put a missing pong off.
	minPongBound = 10 * time.Second
)

// liveness judges the two directions of a link separately: any frame proves the
// downlink, only a pong proves the uplink.
type liveness struct {
	heardAt   time.Time
	timeout   time.Duration // of silence, 0: none
	idle      deadline
	pingN     uint64
	pingAt    time.Time
	rtt       time.Duration // of the last ping that was answered
	pong      deadline      // starts again with each inbound frame,
	pongWait  time.Duration
	pongBound deadline // within this
	stalled   bool
	stale     time.Duration // for how long the server has not heard from its store
}

func (l *liveness) reset() { *l = liveness{pingN: l.pingN, stalled: l.stalled} }

// maxStale is the longest silence of a store that is believed.
const maxStale = 24 * time.Hour

// heard notes that something has arrived.
func (m *Machine) heard() {
	l := &m.live
	l.heardAt = m.now
	if l.timeout > 0 {
		l.idle.set(m.now, l.timeout)
	}
	if l.pong.on {
		l.pong.set(m.now, l.pongWait)
	}
}

// verify asks for a pong within wait, unless one is being waited for.
func (m *Machine) verify(wait time.Duration) {
	l := &m.live
	if l.pong.on || m.version == 0 || m.conn == 0 {
		return // a server of the base frames knows no ping
	}
	l.pingN++
	l.pingAt, l.pongWait = m.now, wait
	m.awaitPong()
	m.write(wire.Ping{N: l.pingN})
}

// awaitPong starts both deadlines of the pong anew.
func (m *Machine) awaitPong() {
	l := &m.live
	l.pong.set(m.now, l.pongWait)
	l.pongBound.set(m.now, max(l.timeout, l.pongWait, minPongBound))
}

// wrote puts off the deadlines of the uplink: it is slow, not dead.
func (m *Machine) wrote() {
	if m.live.pong.on {
		m.awaitPong()
	}
	if m.box.overdue.on {
		m.box.overdue.set(m.now, m.p.AckTimeout)
	}
}

func (m *Machine) ponged(n uint64) {
	l := &m.live
	if n != l.pingN || !l.pong.on {
		return
	}
	l.pong.clear()
	l.pongBound.clear()
	l.rtt, m.changed = max(Elapsed(l.pingAt, m.now), 1), true
}

// checkLiveness condemns a link that gave no sign of life in time.
func (m *Machine) checkLiveness() {
	l := &m.live
	switch {
	case l.stalled:
		// We are not reading: silence is our own doing.
		m.heard()
		if l.pong.on { // and with it the bound
			m.awaitPong()
		}
		if m.box.overdue.due(m.now) {
			m.box.overdue.set(m.now, m.p.AckTimeout)
		}
	case l.pong.due(m.now) && l.pong.left(m.now) < -lateTimer && !l.pongBound.due(m.now):
		// This timer came late: what has arrived meanwhile is handled first.
		l.pong.set(m.now, l.pongWait)
	case l.pong.due(m.now):
		m.abandon(wire.CloseNoSignOfLife, "no pong within "+l.pongWait.String())
	case l.pongBound.due(m.now):
		m.abandon(wire.CloseNoSignOfLife, "frames arrive but no pong: nothing gets through to the server")
	case l.idle.due(m.now):
		if l.idle.left(m.now) > -lateTimer {
			m.abandon(wire.CloseNoSignOfLife, "nothing heard for "+l.timeout.String())
			return
		}
		// This timer came late. What has arrived meanwhile is handled next; if
		// nothing has, the link gets one more chance.
		l.idle.set(m.now, m.p.PingTimeout)
		m.verify(m.p.PingTimeout)
	case m.box.overdue.due(m.now):
		m.box.overdue.set(m.now, m.p.AckTimeout)
		m.verify(m.p.AckTimeout)
	}
}

// storeStale notes what the server says of its store, or shows by an event.
func (m *Machine) storeStale(stale time.Duration) {
	if m.live.stale != stale {
		m.live.stale, m.changed = stale, true
	}
}

// announced handles a heartbeat; with next, a large frame follows.
func (m *Machine) announced(f wire.Heartbeat) {
	if f.Next > int64(m.p.MaxMessage) {
		// It would only break the connection, again and again.
		m.giveUp(f.Stream, "a frame of this stream is larger than the client takes")
		m.abandon(wire.CloseTooBig, "a frame larger than the client takes was announced")
		return
	}
	if f.Next == 0 { // else it is not the regular one
		m.storeStale(time.Duration(min(f.Stale, maxStale.Milliseconds())) * time.Millisecond)
	}
	if f.Next > 0 && m.live.idle.on {
		extra := time.Duration(f.Next) * time.Second / largeFrameRate
		m.live.idle.after += min(extra, maxLargeFrame)
		if m.live.pong.on {
			m.live.pong.after += min(extra, maxLargeFrame)
			m.live.pongBound.after += min(extra, maxLargeFrame)
		}
	}
}
