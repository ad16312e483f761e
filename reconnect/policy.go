package reconnect

import (
	"errors"
	"strconv"
	"time"

	"github.com/longwire/longwire/wire"
)

// Policy holds the numbers a [Machine] decides by. The zero value is the default
// policy. In every duration zero means the default; negative values and values
// outside the stated range are errors of NewMachine, each named.
type Policy struct {
	// Identity is the user as the server's Authenticate names it, if known
	// before the first welcome. A welcome for anybody else ends the client.
	// Empty: taken from the first welcome.
	Identity string

	// Base is the bound of the first wait after a failed attempt; it doubles
	// with each further failure up to Cap. Waits are drawn uniformly from zero
	// (full jitter). Default 500 ms, 1 ms to 1 h.
	Base time.Duration
	// Cap bounds the doubling. Default 30 s, Base to 24 h.
	Cap time.Duration
	// Jitter says how a wait is drawn from below its bound. Default JitterFull.
	// Waits that the server asked for are always uniform in their range.
	Jitter Jitter
	// MaxAttempts ends the client, with CauseGaveUp, after that many failures in
	// a row: attempts without a welcome, and sessions that did not hold. Default
	// 0: it never gives up.
	MaxAttempts int
	// MaxElapsed ends the client, with CauseGaveUp, when it has been without a
	// session for that long, awake. Default 0: it never gives up. At most 30 days.
	MaxElapsed time.Duration
	// CloseCodes overrides what the close codes of the server mean. Codes are
	// 1000 to 4999.
	CloseCodes map[int]CloseRule
	// CalmAfter is how long the client must be without a session before
	// Status.Interrupted says so: a page need not flicker over every deploy.
	// Default 3 s, at most 1 h.
	CalmAfter time.Duration
	// StableAfter is how long a welcome must hold before the count of failures
	// starts again. Default 5 s, at most 1 h.
	StableAfter time.Duration

	// URLTimeout bounds the wait for a URL, DialTimeout that for the socket to
	// open, WelcomeTimeout that for the welcome. Default 10 s each, at most 10 min.
	URLTimeout     time.Duration
	DialTimeout    time.Duration
	WelcomeTimeout time.Duration
	// ProbeTimeout bounds a probe. Default 5 s, at most 1 min.
	ProbeTimeout time.Duration
	// Probe says that the driver can probe. Without it a login that expired
	// while the network failed is found out by close codes only.
	Probe bool

	// IdleTimeout is the silence after which the link counts as dead. Default:
	// 2.5 heartbeats as announced in the welcome; none when none was announced.
	// At most 1 h.
	IdleTimeout time.Duration
	// PingTimeout is how long a pong may take when a live link is verified.
	// Default 2 s, at most 1 min.
	PingTimeout time.Duration
	// AckTimeout is how long an acknowledgement may take before a ping asks
	// whether the uplink is alive; the pong then has as long again. Default 5 s,
	// at most 10 min.
	AckTimeout time.Duration

	// MaxPending and MaxPendingBytes bound the outbox; Overflow says what becomes
	// of a message beyond either. Default 1,000 messages, 1 MiB of bodies.
	MaxPending      int
	MaxPendingBytes int
	// Overflow is RefuseNew by default.
	Overflow Overflow
	// Expiry is how long a message waits for its acknowledgement before it is
	// given up, unless it brings an expiry of its own. Default 5 min, at most 24 h.
	Expiry time.Duration

	// MaxMessage bounds what is read from the server, in bytes. Default 16 MiB.
	MaxMessage int

	// Dialect describes a server that does not speak the protocol of Longwire. Nil:
	// it does.
	Dialect *Dialect

	// Relay makes the machine stand where the server's cursor stands instead of
	// where an application does: everything is delivered, positions follow the
	// last frame, and whoever is behind drops duplicates. A hub sets it.
	Relay bool

	// Rand returns uniform random numbers in [0, 1). Required.
	Rand func() float64
}

// Jitter says how a wait is drawn from below its bound.
type Jitter uint8

const (
	// JitterFull draws from zero to the bound: what spreads a fleet best.
	JitterFull Jitter = iota
	// JitterEqual draws from the upper half.
	JitterEqual
	// JitterNone waits for the bound exactly. A fleet then returns as a herd.
	JitterNone
)

// CloseRule is what a close code means.
type CloseRule string

// Rules for close codes.
const (
	CloseRetry   CloseRule = "retry"   // the ordinary wait
	CloseEnd     CloseRule = "end"     // ends with CauseRefused
	CloseLogin   CloseRule = "login"   // as 4401: a fresh URL
	CloseRestart CloseRule = "restart" // as 1012: a floor, or the range in the reason
	CloseBusy    CloseRule = "busy"    // as 1013
)

// Overflow is what becomes of a message that the outbox has no room for.
type Overflow uint8

const (
	// RefuseNew refuses it.
	RefuseNew Overflow = iota
	// DropOldest makes room by dropping the oldest messages that were never
	// written; if that is not enough the new one is refused.
	DropOldest
)

// withDefaults returns p with its zero values replaced, or one error that names
// every field that is wrong.
func (p Policy) withDefaults() (Policy, error) {
	var errs []error
	duration := func(name string, v *time.Duration, def, low, high time.Duration) {
		if *v == 0 {
			*v = def
			return
		}
		if *v < low || *v > high {
			errs = append(errs, errors.New("reconnect: "+name+": "+v.String()+" is not between "+low.String()+" and "+high.String()))
		}
	}
	number := func(name string, v *int, def int) {
		if *v == 0 {
			*v = def
		}
		if *v < 0 {
			errs = append(errs, errors.New("reconnect: "+name+": "+strconv.Itoa(*v)+" is negative"))
		}
	}
	duration("Base", &p.Base, 500*time.Millisecond, time.Millisecond, time.Hour)
	duration("Cap", &p.Cap, max(30*time.Second, p.Base), p.Base, 24*time.Hour)
	duration("MaxElapsed", &p.MaxElapsed, 0, time.Millisecond, 30*24*time.Hour)
	duration("CalmAfter", &p.CalmAfter, 3*time.Second, time.Millisecond, time.Hour)
	duration("StableAfter", &p.StableAfter, wire.DefaultStableAfter, time.Millisecond, time.Hour)
	duration("URLTimeout", &p.URLTimeout, 10*time.Second, time.Millisecond, 10*time.Minute)
	duration("DialTimeout", &p.DialTimeout, 10*time.Second, time.Millisecond, 10*time.Minute)
	duration("WelcomeTimeout", &p.WelcomeTimeout, wire.DefaultHelloTimeout, time.Millisecond, 10*time.Minute)
	duration("ProbeTimeout", &p.ProbeTimeout, 5*time.Second, time.Millisecond, time.Minute)
	duration("IdleTimeout", &p.IdleTimeout, 0, time.Millisecond, time.Hour)
	duration("PingTimeout", &p.PingTimeout, 2*time.Second, time.Millisecond, time.Minute)
	duration("AckTimeout", &p.AckTimeout, 5*time.Second, time.Millisecond, 10*time.Minute)
	duration("Expiry", &p.Expiry, 5*time.Minute, time.Millisecond, 24*time.Hour)
	number("MaxPending", &p.MaxPending, 1000)
	number("MaxPendingBytes", &p.MaxPendingBytes, 1<<20)
	number("MaxAttempts", &p.MaxAttempts, 0)
	number("MaxMessage", &p.MaxMessage, wire.MaxServerFrame)
	if p.Jitter > JitterNone {
		errs = append(errs, errors.New("reconnect: Jitter: there is no such kind"))
	}
	if p.Overflow > DropOldest {
		errs = append(errs, errors.New("reconnect: Overflow: there is no such kind"))
	}
	for code, rule := range p.CloseCodes {
		if code < 1000 || code > 4999 {
			errs = append(errs, errors.New("reconnect: CloseCodes: "+strconv.Itoa(code)+" is not a close code"))
		}
		switch rule {
		case CloseRetry, CloseEnd, CloseLogin, CloseRestart, CloseBusy:
		default:
			errs = append(errs, errors.New("reconnect: CloseCodes: "+strconv.Itoa(code)+": there is no rule "+strconv.Quote(string(rule))))
		}
	}
	if p.Dialect != nil {
		errs = append(errs, p.Dialect.problems()...)
	}
	if p.Rand == nil {
		errs = append(errs, errors.New("reconnect: Rand: missing"))
	}
	if len(p.Identity) > wire.MaxUser {
		errs = append(errs, errors.New("reconnect: Identity: longer than "+strconv.Itoa(wire.MaxUser)+" bytes"))
	}
	return p, errors.Join(errs...)
}
