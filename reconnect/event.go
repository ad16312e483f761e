package reconnect

import (
	"time"

	"github.com/longwire/longwire/wire"
)

// Event is what a driver tells a [Machine]. The concrete types are the structs
// below.
type Event interface{ event() }

type (
	// Start begins: from idle, or afresh from an end.
	Start struct{}
	// Stop ends for good, with cause CauseClosed. What is pending is settled.
	Stop struct{}
	// Sleep gives the connection up because the page is about to be suspended;
	// nothing is dialled until Wake.
	Sleep struct{}
	// Wake ends Sleep.
	Wake struct{}

	// URLReady answers FetchURL with the same attempt. Answers to an older one are
	// ignored.
	URLReady struct {
		Attempt uint64
		URL     string
	}
	// URLFailed says that there is no URL for that attempt.
	URLFailed struct {
		Attempt uint64
		Err     string
	}

	// Opened says that the socket is open.
	Opened struct{ Conn uint64 }
	// Received hands over one message. The machine keeps no part of Data.
	//
	// A driver of a relay may keep the payloads of events to itself, once a server that
	// speaks a version has sent its welcome. Frame then is the message, without them;
	// Data is what the driver knows it by, which comes back as Deliver.Text; and Size
	// is its length.
	Received struct {
		Conn   uint64
		Data   []byte
		Binary bool
		Frame  wire.Frame // an Event or Events, nil: to be read from Data
		Size   int
	}
	// Closed says that the socket is gone, with the code and reason of the
	// peer's close frame, or 1005 or 1006. It comes after every message.
	Closed struct {
		Conn   uint64
		Code   int
		Reason string
		// RetryAfter is what a handshake was refused with over HTTP, 0: nothing. No
		// browser tells.
		RetryAfter time.Duration
	}

	// ProbeDone is the outcome of Probe with the same number.
	ProbeDone struct {
		N          uint64
		Status     int           // HTTP status, 0 when there was no readable answer
		Marker     bool          // the header Longwire-Probe: 1 was there
		Redirected bool          // a redirect, which is never followed
		RetryAfter time.Duration // 0: none
		Err        string        // network error
	}

	// Tick says that the time Next asked for has come. A Tick at any other time
	// does no harm: deadlines are judged by elapsed time.
	Tick struct{}

	// Signal is a hint from the surroundings. It shortens a wait, at most six times
	// a minute and never below a floor that the server set; a live link is verified.
	Signal struct{ Kind SignalKind }

	// Send queues a message. It is settled exactly once, by Settle.
	Send struct {
		ID   string
		Body wire.Raw
		// Expiry is how long it waits for its acknowledgement. 0: Policy.Expiry.
		Expiry time.Duration
		// Dedupe is for a message that another client of the same user may have
		// written: what Welcome.DedupeID was then, Age ago. Empty: nobody has.
		Dedupe string
		Age    time.Duration
	}
	// Cancel withdraws a message.
	Cancel struct{ ID string }
	// Clear withdraws every message.
	Clear struct{}
	// Wrote says that the socket has taken bytes that it had not before: a slow
	// uplink is not a dead one.
	Wrote struct{ Conn uint64 }

	// Subscribe follows a stream (empty: the session's own) from a position, or
	// without one from a snapshot or from now.
	Subscribe struct {
		Stream string
		From   wire.Want
	}
	// Unsubscribe stops following a stream.
	Unsubscribe struct{ Stream string }
	// Positions replaces all that is wanted, by a relay, before it dials.
	Positions struct{ Streams map[string]wire.Want }
	// Inherit tells a relay what is known of the one before it, before it starts or
	// until its first welcome: the session and the user, if it has none of its own,
	// and the worst of attempts and floors. One that was not live passes its wait on.
	Inherit struct {
		Session   string
		User      string
		Attempt   int
		NotBefore time.Time // zero: none
		Live      bool
	}
	// Outrank makes Gen higher than Above.
	Outrank struct{ Above uint64 }

	// Reauthorize says that there is a new login: an end with
	// CauseUnauthorized is revived, a wait is cut short.
	Reauthorize struct{}
	// DialNow dials at once, undercutting every wait and floor; while
	// connected it verifies the link.
	DialNow struct{}
	// Stalled says that the driver has stopped or begun again to read because
	// the application is behind: silence then proves nothing.
	Stalled struct{ On bool }
)

func (Start) event()       {}
func (Stop) event()        {}
func (Sleep) event()       {}
func (Wake) event()        {}
func (URLReady) event()    {}
func (URLFailed) event()   {}
func (Opened) event()      {}
func (Received) event()    {}
func (Closed) event()      {}
func (ProbeDone) event()   {}
func (Tick) event()        {}
func (Signal) event()      {}
func (Send) event()        {}
func (Cancel) event()      {}
func (Clear) event()       {}
func (Wrote) event()       {}
func (Subscribe) event()   {}
func (Unsubscribe) event() {}
func (Positions) event()   {}
func (Inherit) event()     {}
func (Outrank) event()     {}
func (Reauthorize) event() {}
func (DialNow) event()     {}
func (Stalled) event()     {}

// SignalKind says what has changed around the client.
type SignalKind uint8

// Kinds of signals.
const (
	Online  SignalKind = iota + 1 // a network is back, or is said to be
	Offline                       // the network is said to be gone
	Visible                       // somebody looks at the page
	Hidden
	Wanted // somebody uses the page, or another one joins: revives as Visible does, and no more
)

// Action is what a [Machine] tells its driver to do. The concrete types are the
// structs below. Actions are to be done in order.
type Action interface{ action() }

type (
	// FetchURL asks for a fresh URL for one dial.
	FetchURL struct{ Attempt uint64 }
	// Dial opens a socket. Everything the driver says of it carries Conn.
	Dial struct {
		Conn uint64
		URL  string
	}
	// Write sends one text message.
	Write struct {
		Conn uint64
		Data []byte
	}
	// Abandon leaves a socket at once, open or not, telling the peer code and
	// reason if that costs no waiting. Nothing more is wanted of it.
	Abandon struct {
		Conn   uint64
		Code   int
		Reason string
	}
	// Probe asks over HTTP whether network and login are fine. A probe that is
	// still out when another one starts, or the client ends, is to be dropped.
	Probe struct{ N uint64 }

	// Deliver hands on a frame that passed every check: Welcome, Subbed, Event,
	// Events, Snapshot or Reset. Of an Events frame the first Skip were had
	// before. Asked is what a Subbed answers; a relay gets every answer.
	Deliver struct {
		Frame wire.Frame
		Skip  int
		Asked wire.Want
		// Text is the frame as received, nil where the machine made it; beside a
		// Received.Frame it is what was Data there.
		Text []byte
	}
	// Settle says what became of a message.
	Settle struct {
		ID      string
		Outcome Outcome
		Result  wire.Raw // Accepted: what the ack carried, nil for nothing
		Code    string   // otherwise: a word for programs
		Reason  string   // and a sentence for people
	}
	// Report says that the status has changed.
	Report struct{ Status Status }
	// Problem tells of something wrong that the client copes with.
	Problem struct{ Text string }
)

func (FetchURL) action() {}
func (Dial) action()     {}
func (Write) action()    {}
func (Abandon) action()  {}
func (Probe) action()    {}
func (Deliver) action()  {}
func (Settle) action()   {}
func (Report) action()   {}
func (Problem) action()  {}

// Outcome is what became of a message.
type Outcome uint8

// Outcomes of a message.
const (
	// Accepted: the server acknowledged it.
	Accepted Outcome = iota + 1
	// Refused: the server refused it for good.
	Refused
	// NotSent: it never reached the wire and never will.
	NotSent
	// Unknown: it was written, and whether it took effect cannot be said.
	Unknown
)

func (o Outcome) String() string {
	switch o {
	case Accepted:
		return "accepted"
	case Refused:
		return "refused"
	case NotSent:
		return "not-sent"
	case Unknown:
		return "unknown"
	}
	return "invalid"
}
