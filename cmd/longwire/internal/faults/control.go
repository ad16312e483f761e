package faults

import (
	"context"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
)

// maxEffects bounds how many message ids a report tells apart.
const maxEffects = 10_000

// A Control holds the faults in force and counts what the server sees. One
// Control serves all servers that follow each other in one process, and its
// counters outlive a restart. Its methods may be called at any time from any
// goroutine.
type Control struct {
	log *slog.Logger

	mu      sync.Mutex
	conns   map[*conn]struct{} // open sockets, upgraded or not
	muteIn  bool               // for connections to come
	muteOut bool
	hold    bool
	stall   chan struct{} // closed when lifted, nil without the fault
	hang    chan struct{} // the same
	refuse  refusal
	logins  bool // refused
	report  Report
}

// A refusal answers requests before they reach the server.
type refusal struct {
	status   int
	header   http.Header
	left     int // how many more, negative without end
	upgrades bool
	probes   bool
}

// Report is what the server has seen since the start or the last reset.
type Report struct {
	Node          string         `json:"node"`          // its address: behind a balancer it is one of several
	Connections   int            `json:"connections"`   // upgraded ones, open now
	Held          int            `json:"held"`          // of these, closed by the server and kept open by a fault
	Upgrades      int            `json:"upgrades"`      // requests to the WebSocket endpoint
	Accepted      int            `json:"accepted"`      // of these, answered 101
	Refused       int            `json:"refused"`       // of these and the probes, refused by the fault refuse
	Probes        int            `json:"probes"`        // requests to the probe endpoint
	LoginsRefused int            `json:"loginsRefused"` // by the fault login
	Muted         int            `json:"muted"`         // messages and control frames swallowed by the fault mute
	Messages      int            `json:"messages"`      // calls of the message handler
	Effects       map[string]int `json:"effects"`       // the same by message id, for the first 10,000 ids
	CloseCodes    map[uint16]int `json:"closeCodes"`    // of close frames from clients, 1005 for one without a code
}

// New returns a Control without faults. The logger is told of every fault that
// is set; nil discards.
func New(log *slog.Logger) *Control {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Control{log: log, conns: map[*conn]struct{}{}}
	c.Reset()
	return c
}

// Listener wraps l: the faults act on the connections that it accepts.
func (c *Control) Listener(l net.Listener) net.Listener {
	return listener{Listener: l, control: c}
}

type connKey struct{}

// ConnContext is for [http.Server]: it tells the handlers here which connection a
// request came on.
func (c *Control) ConnContext(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, nc)
}

// connOf returns the connection of a request, nil for one that is not ours.
func connOf(ctx context.Context) *conn {
	own, _ := ctx.Value(connKey{}).(*conn)
	return own
}

// Reset lifts every fault and sets the counters to zero. Connections that a
// fault kept open after the server had closed them are closed.
func (c *Control) Reset() {
	c.mu.Lock()
	c.hold, c.refuse, c.logins = false, refusal{}, false
	lift(&c.stall)
	lift(&c.hang)
	c.report = Report{Effects: map[string]int{}, CloseCodes: map[uint16]int{}}
	c.mu.Unlock()
	c.mute(true, false, false)
	c.mute(false, false, false)
	c.releaseHeld()
}

// Report returns the counters.
func (c *Control) Report() Report {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.report
	r.Effects = maps.Clone(r.Effects)
	r.CloseCodes = maps.Clone(r.CloseCodes)
	for own := range c.conns {
		if own.upgraded.Load() {
			r.Connections++
		}
		if own.held {
			r.Held++
		}
	}
	return r
}

// drop closes all upgraded connections without a close frame and returns how
// many there were.
func (c *Control) drop(reset bool) int {
	doomed := c.matching(func(own *conn) bool { return own.upgraded.Load() })
	for _, own := range doomed {
		own.kill(reset)
	}
	return len(doomed)
}

// closeWith sends a close frame on the upgraded connections of user, on all of them
// when it is empty, and returns how many there were.
func (c *Control) closeWith(user string, code int, reason string) int {
	chosen := c.matching(func(own *conn) bool {
		return own.upgraded.Load() && !own.held && !own.said.Load() && (user == "" || own.user == user)
	})
	for _, own := range chosen {
		own.sendClose(code, reason)
	}
	return len(chosen)
}

// killOthers closes every connection but the one that carried the request of
// ctx, as the end of a process does.
func (c *Control) killOthers(ctx context.Context) {
	spared := connOf(ctx)
	for _, own := range c.matching(func(own *conn) bool { return own != spared }) {
		own.kill(false)
	}
}

// mute sets the fault for one direction, on the open connections and, when later
// is true, on those to come.
func (c *Control) mute(in, on, later bool) {
	c.mu.Lock()
	if in {
		c.muteIn = on && later
	} else {
		c.muteOut = on && later
	}
	for own := range c.conns {
		switch {
		case !own.upgraded.Load():
		case in:
			own.muteIn.Store(on)
		default:
			own.muteOut.Store(on)
		}
	}
	c.mu.Unlock()
	c.releaseHeld()
}

// setHold sets the fault that hides the end of connections.
func (c *Control) setHold(on bool) {
	c.mu.Lock()
	c.hold = on
	c.mu.Unlock()
	c.releaseHeld()
}

// toggle sets a fault that blocks goroutines: field is c.stall or c.hang.
func (c *Control) toggle(field *chan struct{}, on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !on {
		lift(field)
	} else if *field == nil {
		*field = make(chan struct{})
	}
}

func lift(field *chan struct{}) {
	if *field != nil {
		close(*field)
		*field = nil
	}
}

func (c *Control) setRefusal(r refusal) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = r
}

func (c *Control) refuseLogins(on bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logins = on
}

func (c *Control) add(own *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[own] = struct{}{}
}

// upgrade takes a connection that HTTP has handed over, with what the client has
// sent already. From now on its bytes are frames: the answer 101 has been written.
func (c *Control) upgrade(own *conn, early []byte) {
	own.in.run(early, func(byte) bool { return true }, c.countClose)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Accepted++
	own.muteIn.Store(c.muteIn)
	own.muteOut.Store(c.muteOut)
	own.upgraded.Store(true)
}

func (c *Control) remove(own *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, own)
}

// holdBack decides whether the client must not see that the server closes own.
func (c *Control) holdBack(own *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	own.held = own.upgraded.Load() && (c.hold || own.muteOut.Load())
	return own.held
}

// releaseHeld closes the sockets that no fault holds open any more.
func (c *Control) releaseHeld() {
	for _, own := range c.matching(func(own *conn) bool { return own.held && !c.hold && !own.muteOut.Load() }) {
		own.kill(false)
	}
}

// matching returns the open connections that ok is true for. ok runs with the
// lock held.
func (c *Control) matching(ok func(*conn) bool) []*conn {
	c.mu.Lock()
	defer c.mu.Unlock()
	var found []*conn
	for own := range c.conns {
		if ok(own) {
			found = append(found, own)
		}
	}
	return found
}

func (c *Control) stalled() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stall
}

func (c *Control) holdsClose() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hold
}

func (c *Control) countMuted() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Muted++
}

func (c *Control) countClose(code uint16) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.CloseCodes[code]++
}
