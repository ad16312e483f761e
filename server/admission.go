package server

import (
	"math"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/longwire/longwire/wire"
)

// Admission bounds what a node takes on. The zero value has the defaults; negative
// numbers are errors. Rates are from 0.001 to 100,000,000 a second.
//
// A browser's script cannot see the 503 of an upgrade. So what is too much is
// turned away with close code 1013 and a time to come back, up to TurnAways; then
// with a 503 and Retry-After, which a script gets from the probe; and behind
// [Server.Listener] it is not accepted at all. Handshakes beyond their rate are
// lined up: each is asked to come back when its turn is at that rate, in five
// minutes at the latest.
type Admission struct {
	// Connections is how many the node holds, those before their resume included.
	// Default 10,000. Keep it below the process's file descriptors.
	Connections int
	// UserConnections is how many sessions with a connection a user has; more are
	// closed with 4429. Who takes an own session over, from a connection that is dead
	// say, is always let in. Default 100. Anonymous users are not counted, nor
	// connections before their resume.
	UserConnections int
	// AddressConnections is how many connections come from one address. Default 0: not
	// counted, since many users can share an address.
	AddressConnections int
	// Address names the address of an upgrade, or a probe. Default: the host of its
	// RemoteAddr; behind a proxy it must be what the proxy says. A request over which it
	// panics is answered 503.
	Address func(*http.Request) string

	// Handshakes is how many upgrades a second are let through to Authenticate, in the
	// long run. Default 500.
	Handshakes float64
	// HandshakeBurst is how many more than that may come at once. Default: those of
	// one second.
	HandshakeBurst int
	// TurnAways is how many upgrades a second may be answered with 1013. Default twice
	// Handshakes.
	TurnAways float64
	// Accepts is how many TCP connections a second [Server.Listener] accepts, whatever
	// they are for. Default four times Handshakes.
	Accepts float64
	// Welcomes is how many resumes a second are worked on: Authorize, snapshots, the
	// takeover of the session. Those with a session that is known here go before
	// others; who waits for longer than five seconds is closed with 1013. Default: as
	// Handshakes.
	Welcomes float64
	// Replays is how many connections at once are written what they missed, a batch
	// each and for at most a second. The others wait for their turn, and what is live
	// goes on. Default 64.
	Replays int

	// MessageRate is how many messages a second a user (a session of an anonymous one)
	// may send, in the long run, resent ones included. More are refused for now; a
	// client that does not wait as it is asked to is closed with 4429. Default 100.
	MessageRate float64
	// MessageBurst is how many may come at once. Default twice those of one second.
	MessageBurst int
}

const (
	defaultConnections     = 10_000
	defaultUserConnections = 100
	defaultHandshakes      = 500
	defaultReplays         = 64
	defaultMessageRate     = 100
)

// minRate and maxRate are such that the burst of some seconds fits any int, and the
// time between two any duration.
const (
	minRate = 0.001
	maxRate = 1e8
)

// The times to come back that a client is told.
const (
	minComeBack  = time.Second
	fullComeBack = 15 * time.Second // when it is room that is missing
	maxComeBack  = 5 * time.Minute
)

// maxShedding is how many connections that were turned away may be open until the
// peer has read why.
const maxShedding = 1024

// prepare fills the defaults in and calls bad for what is wrong.
func (a *Admission) prepare(bad func(name string, value any, problem string)) {
	const negative = "must not be negative"
	number := func(name string, n *int, byDefault int) {
		if *n < 0 {
			bad("Admission."+name, *n, negative)
		}
		if *n == 0 {
			*n = byDefault
		}
	}
	perSecond := func(name string, r *float64, byDefault float64) {
		if *r != 0 && !(minRate <= *r && *r <= maxRate) { // NaN is neither
			bad("Admission."+name, *r, "must be 0, or from 0.001 to 1e+08")
			*r = 0
		}
		if *r == 0 {
			*r = min(byDefault, maxRate)
		}
	}
	number("Connections", &a.Connections, defaultConnections)
	number("UserConnections", &a.UserConnections, defaultUserConnections)
	number("AddressConnections", &a.AddressConnections, 0)
	perSecond("Handshakes", &a.Handshakes, defaultHandshakes)
	number("HandshakeBurst", &a.HandshakeBurst, int(math.Ceil(a.Handshakes)))
	perSecond("TurnAways", &a.TurnAways, 2*a.Handshakes)
	perSecond("Accepts", &a.Accepts, 4*a.Handshakes)
	perSecond("Welcomes", &a.Welcomes, a.Handshakes)
	number("Replays", &a.Replays, defaultReplays)
	perSecond("MessageRate", &a.MessageRate, defaultMessageRate)
	number("MessageBurst", &a.MessageBurst, int(math.Ceil(2*a.MessageRate)))
	if a.Address == nil {
		a.Address = remoteHost
	}
}

// addressOf asks the application for the address.
func (s *Server) addressOf(r *http.Request) (address string, d denial) {
	err := s.guard("Admission.Address", func() error {
		address = s.opts.Admission.Address(r)
		return nil
	})
	if err != nil {
		return "", deniedFailed
	}
	return address, notDenied
}

func remoteHost(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return r.RemoteAddr
	}
	return host
}

// perSecond returns a limiter with a burst of one second.
func perSecond(r float64) *rate.Limiter {
	return rate.NewLimiter(rate.Limit(r), int(math.Ceil(r)))
}

// admission counts connections and handshakes.
type admission struct {
	limits     *Admission
	spread     time.Duration
	handshakes *rate.Limiter
	turnAways  *rate.Limiter
	shedding   atomic.Int64 // turned away, and not yet closed

	mu        sync.Mutex
	open      int
	byAddress map[string]int
	horizon   time.Time // the turn of the last one that was lined up
}

func newAdmission(o *Options) *admission {
	a := &o.Admission
	return &admission{
		limits:     a,
		spread:     o.Spread,
		handshakes: rate.NewLimiter(rate.Limit(a.Handshakes), a.HandshakeBurst),
		turnAways:  perSecond(a.TurnAways),
		byAddress:  make(map[string]int),
	}
}

// comeBack is the range of times from which one who is turned away draws when to
// come back.
type comeBack struct{ low, high time.Duration }

func (c comeBack) reason() string { return wire.RetryReason(c.low, c.high) }

// after is the range as a Retry-After, of which a client makes the range from that to
// twice that: the middle is the same.
func (c comeBack) after() time.Duration { return (c.low + c.high) / 3 }

// later is the range for who can only wait for room.
func (a *admission) later() comeBack {
	return comeBack{fullComeBack, fullComeBack + max(fullComeBack, a.spread)}
}

// lineUp gives the next turn at the rate. It needs a.mu.
func (a *admission) lineUp() comeBack {
	now := time.Now()
	if a.horizon.Before(now) {
		a.horizon = now
	}
	turn := time.Duration(float64(time.Second) / a.limits.Handshakes)
	if a.horizon.Sub(now) < maxComeBack {
		a.horizon = a.horizon.Add(turn)
	}
	low := min(max(a.horizon.Sub(now), minComeBack), maxComeBack)
	return comeBack{low, low + max(low/8, a.spread)}
}

// enter counts a handshake in, unless it is too much. Every handshake that is
// counted in needs a leave with the same address.
func (a *admission) enter(address string) (denial, comeBack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.full(address); d != notDenied {
		return d, a.later()
	}
	if !a.handshakes.Allow() {
		return deniedRate, a.lineUp()
	}
	a.open++
	if a.limits.AddressConnections > 0 {
		a.byAddress[address]++
	}
	return notDenied, comeBack{}
}

// look says what enter would, and counts nothing. Who is told to come back is lined
// up all the same.
func (a *admission) look(address string) (denial, comeBack) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if d := a.full(address); d != notDenied {
		return d, a.later()
	}
	if a.handshakes.Tokens() < 1 {
		return deniedRate, a.lineUp()
	}
	return notDenied, comeBack{}
}

// full reports whether there is no room for another connection. It needs a.mu.
func (a *admission) full(address string) denial {
	switch {
	case a.open >= a.limits.Connections:
		return deniedConnections
	case a.limits.AddressConnections > 0 && a.byAddress[address] >= a.limits.AddressConnections:
		return deniedAddress
	}
	return notDenied
}

func (a *admission) leave(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	if a.byAddress[address] > 1 {
		a.byAddress[address]--
	} else {
		delete(a.byAddress, address)
	}
}
