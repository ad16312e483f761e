package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

var (
	// ErrUnauthorized is what Authenticate returns to refuse with 401: nobody is
	// logged in, or no longer. Wrap it to say more; the text is not sent.
	ErrUnauthorized = errors.New("server: unauthorized")
	// ErrForbidden is what Authenticate returns to refuse with 403: the login is
	// valid and may not connect.
	ErrForbidden = errors.New("server: forbidden")
	// ErrNoSnapshot is what Snapshot and SessionSnapshot return for a stream that
	// has none.
	ErrNoSnapshot = errors.New("server: stream has no snapshot")
	// ErrClosed is returned by calls on a Server that was closed.
	ErrClosed = errors.New("server: closed")
	// ErrDraining is returned by Drain when there is a drain already.
	ErrDraining = errors.New("server: draining already")
	// ErrNoSession is returned by PublishToSession for a session that is not known.
	ErrNoSession = errors.New("server: no such session")
	// ErrSealed is returned by calls that publish after Seal or SaveState. It is
	// stream.ErrSealed.
	ErrSealed = stream.ErrSealed
)

// Identity is who is behind a connection, as Authenticate says.
type Identity struct {
	// User is opaque, at most 256 bytes of UTF-8, and the same for the same user on
	// every node and after every restart. Empty: anonymous, known by the session
	// alone.
	User string
	// Expires is when the login ends: the connection is closed with 4401 then. Zero:
	// never.
	Expires time.Time
}

// Snapshot is the state of a stream at a position.
type Snapshot struct {
	// State is any JSON value. The whole frame must stay below 16 MiB.
	State json.RawMessage
	// HasSeq says that Seq is the number, as Publish returned it, of the last event
	// that State contains, or 0 for none. A number beyond the head is from before the
	// stream began anew (after a restart, or after StreamLife): State is then taken
	// to precede all events that the stream has now.
	//
	// Without HasSeq the position is the head from before the function ran: right as
	// long as what Publish has returned for is in the State that is read after it.
	HasSeq bool
	Seq    uint64
}

// Message is one message of a client.
type Message struct {
	Identity Identity
	Session  string
	// ID is unique per user, or per session of an anonymous one, and the same on
	// every resend. OnMessage sees an id once within the window.
	ID   string
	Body json.RawMessage
}

// Refusal is the error with which OnMessage refuses a message in terms that the
// client gets to see. With Retry it is refused for now only: the id is not
// recorded and the client sends it again after that time. Codes of the protocol
// are the wire.Nack… constants; applications add their own.
//
// Authorize can return one with Retry too: the client asks for the stream again.
// So can Snapshot, to have its Reason in the reset.
type Refusal struct { //nolint:errname // what it says, not what went wrong
	Code   string        // at most 123 bytes; default "failed", or "busy" with Retry
	Reason string        // at most 1,024 bytes, for people
	Retry  time.Duration // 0: for good
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("server: refused: %s: %s", r.Code, r.Reason)
}

// Options configure a Server. The zero value is useful: everybody is anonymous,
// may follow every stream, no stream has a snapshot and messages are refused.
// Zero numbers and durations mean their defaults; negative ones are errors.
//
// The functions run concurrently with each other and must be safe for that. Their
// contexts end when the server is closed. A function that panics counts as one
// that failed, and is logged. None runs on a goroutine that reads or writes a
// connection.
type Options struct {
	// Authenticate says who sends a request: an upgrade, or a probe. An error that
	// is neither ErrUnauthorized nor ErrForbidden is a 503 and is logged, so keep
	// tokens out of its text. nil: everybody is anonymous.
	Authenticate func(*http.Request) (Identity, error)

	// Authorize says whether someone may follow a stream, on every resume and every
	// sub. It runs before the stream is created. An error is answered "forbidden",
	// except a *Refusal with Retry and one that comes from the ten seconds that its
	// context lasts: "busy". nil: everything is allowed. A session's own stream is
	// not asked about.
	Authorize func(ctx context.Context, id Identity, stream string) error

	// Snapshot returns the state of a named stream. It is given no user because its
	// result is shared by all who wait for it. Its context lasts SnapshotTimeout.
	// ErrNoSnapshot says that the stream has none; any other error is logged and
	// becomes a reset. nil: no stream has one.
	Snapshot func(ctx context.Context, stream string) (Snapshot, error)

	// SessionSnapshot is the same for a session's own stream. It should return
	// ErrNoSnapshot for everybody or for nobody.
	SessionSnapshot func(ctx context.Context, id Identity) (Snapshot, error)

	// OnMessage handles a message; result, if any, is carried by the ack. Messages
	// of one connection are handled one after the other. An error that is no
	// *Refusal is logged and refuses the message for good with code "failed". nil:
	// all messages are refused.
	OnMessage func(ctx context.Context, m Message) (result json.RawMessage, err error)

	// Origins are the origins, besides the endpoint's own host, from which browsers
	// may connect: "https://example.com", with a port where it is not the default.
	// They are compared exactly. The own host is what the request's Host header says:
	// behind a proxy that changes it, list the site here.
	Origins []string
	// NoOrigin lets upgrades without an Origin pass: native clients, and whatever else
	// is not a browser. A browser always sends one.
	NoOrigin bool

	// Admission bounds connections, handshakes and messages.
	Admission Admission

	// Subprotocols are the WebSocket subprotocols that an upgrade picks from: the
	// first of them that the client offers. None is needed, but a browser fails a
	// connection that is answered with none of those that it offered.
	Subprotocols []string

	// Log bounds each stream's log.
	Log stream.Limits

	// Heartbeat is the interval after which something is sent when nothing else was.
	// A peer that was silent for one is pinged, after two it is dropped. Default 15 s,
	// at least 10 ms, at most 5 min: clients believe no longer ones.
	Heartbeat time.Duration
	// Spread is announced to clients: over how long to spread their first reconnect.
	// It is connections to move by the handshakes that the nodes can take in a second.
	// Default 8 s, at most 5 min.
	Spread time.Duration
	// DrainGrace is how long Drain still serves upgrades while Ready says no already:
	// what the balancer needs to notice. Default 0: nothing stands in front.
	DrainGrace time.Duration
	// RestartTime is how long after the end of a drain a successor may need until it
	// answers: clients that could not move elsewhere come back from then on, within
	// Spread. Default 1 s, at most 5 min.
	RestartTime time.Duration
	// HelloTimeout is how long a client may take from upgrade to resume. Default 10 s.
	HelloTimeout time.Duration
	// WriteTimeout is how long a connection may take nothing of what is sent.
	// Default 10 s, at least 10 ms.
	WriteTimeout time.Duration
	// SnapshotTimeout bounds one run of Snapshot or SessionSnapshot. Default 30 s.
	SnapshotTimeout time.Duration
	// SessionLife is how long a session without a connection is kept. Default: as
	// long as the log reaches back.
	SessionLife time.Duration
	// StreamLife is how long a stream that nobody follows or publishes to is kept,
	// with its numbering: after that it comes back with a new epoch. Default 10 min,
	// at least the age of the log.
	StreamLife time.Duration
	// DedupeWindow is how long the answer to a message is remembered. Default 10 min.
	// It should exceed the clients' outbox expiry.
	DedupeWindow time.Duration
	// DedupeLimit is the number of messages remembered per user (per session of an
	// anonymous one). Beyond it messages are refused for now. Default 10,000.
	DedupeLimit int

	// Window is the number of messages in flight that clients are told to keep to.
	// Default 32, at most 1,024.
	Window int
	// Follows is the number of streams one connection may follow. Default 256.
	Follows int
	// Streams is the number of named streams up to which a sub may create one.
	// Publish is not bound by it. Default 100,000.
	Streams int
	// UserSessions is the number of sessions of one user: beyond it the one that was
	// without a connection for longest is forgotten. Default 100.
	UserSessions int
	// IdleSessions is the number of sessions without a connection; beyond it the
	// oldest of them is forgotten. Default 100,000.
	IdleSessions int
	// Snapshots is how many snapshot functions run at once. Default 8.
	Snapshots int

	// Store opens what outlives connections, when several nodes are to share it: see
	// package redisstore. New opens it and Close closes it. nil: in memory, for this
	// node alone.
	Store func(StoreOptions) (Store, error)

	// StateFile is the path of a file through which a planned restart costs clients
	// nothing: SaveState writes it, and the next New with that path takes it over, so
	// that positions, sessions and the answers to messages still count. Empty: a
	// restart is as if all of it had been lost.
	//
	// New never takes over a file that could make it replay what was not published:
	// it must be whole, of this version, saved by the very last server that ran with
	// the path, within the longest of Log.Age, DedupeWindow and SessionLife, and not
	// taken over before. Any other is moved to path.refused and logged as an error,
	// with the reason; the server then starts with nothing, as after a crash. One
	// taken over is moved to path.used. That New cannot read the file, or write to
	// its directory, is an error of New.
	//
	// path.run names the last server that ran, which is why the two belong together:
	// do not restore both from a backup, nor copy them to another node. Servers that
	// use one path at the same time do no harm, but only the last that was started
	// can save. The files hold events and are readable by their owner only. The
	// directory must be of a local file system that keeps what is synced.
	StateFile string

	// Logger gets what goes wrong. nil: slog.Default().
	Logger *slog.Logger
}

const (
	defaultStreamLife   = 10 * time.Minute
	defaultSnapshotTime = 30 * time.Second
	minInterval         = 10 * time.Millisecond
	maxTold             = 5 * time.Minute // clients take longer times for this one
	maxWindow           = 1024
)

// prepare returns the options with defaults filled in, or an error that names
// each bad one.
func (o Options) prepare() (Options, error) {
	var errs []error
	bad := func(name string, value any, problem string) {
		errs = append(errs, fmt.Errorf("server: Options.%s: %v: %s", name, value, problem))
	}
	if err := o.Log.Validate(); err != nil {
		errs = append(errs, fmt.Errorf("server: Options.Log: %w", err))
	}
	o.Log = o.Log.WithDefaults()
	duration := func(name string, d *time.Duration, byDefault time.Duration) {
		if *d < 0 {
			bad(name, *d, "must not be negative")
		}
		if *d == 0 {
			*d = byDefault
		}
	}
	duration("Heartbeat", &o.Heartbeat, wire.DefaultHeartbeat)
	duration("Spread", &o.Spread, wire.DefaultSpread)
	duration("DrainGrace", &o.DrainGrace, 0)
	duration("RestartTime", &o.RestartTime, time.Second)
	duration("HelloTimeout", &o.HelloTimeout, wire.DefaultHelloTimeout)
	duration("WriteTimeout", &o.WriteTimeout, wire.DefaultWriteTimeout)
	duration("SnapshotTimeout", &o.SnapshotTimeout, defaultSnapshotTime)
	duration("SessionLife", &o.SessionLife, o.Log.Age)
	duration("StreamLife", &o.StreamLife, max(defaultStreamLife, o.Log.Age))
	duration("DedupeWindow", &o.DedupeWindow, wire.DefaultDedupe)
	bounds := func(name string, d, least, most time.Duration) {
		switch {
		case 0 < d && d < least:
			bad(name, d, "must be at least "+least.String())
		case d > most:
			bad(name, d, "must be at most "+most.String())
		}
	}
	bounds("Heartbeat", o.Heartbeat, minInterval, maxTold)
	bounds("WriteTimeout", o.WriteTimeout, minInterval, math.MaxInt64)
	bounds("Spread", o.Spread, 0, maxTold)
	bounds("RestartTime", o.RestartTime, 0, maxTold)
	if 0 < o.StreamLife && o.StreamLife < o.Log.Age {
		bad("StreamLife", o.StreamLife, "must be at least the age of the log, "+o.Log.Age.String())
	}
	number := func(name string, n *int, byDefault int) {
		if *n < 0 {
			bad(name, *n, "must not be negative")
		}
		if *n == 0 {
			*n = byDefault
		}
	}
	number("DedupeLimit", &o.DedupeLimit, 10_000)
	number("Window", &o.Window, wire.DefaultWindow)
	number("Follows", &o.Follows, wire.MaxStreams)
	number("Streams", &o.Streams, 100_000)
	number("UserSessions", &o.UserSessions, 100)
	number("IdleSessions", &o.IdleSessions, 100_000)
	number("Snapshots", &o.Snapshots, 8)
	o.Admission.prepare(bad)
	if o.Window > maxWindow {
		bad("Window", o.Window, "must be at most 1024")
	}
	origins := make([]string, len(o.Origins))
	for i, origin := range o.Origins {
		u, err := url.Parse(origin)
		if err != nil || u.Scheme == "" || u.Host == "" || !strings.EqualFold(origin, u.Scheme+"://"+u.Host) {
			bad(fmt.Sprintf("Origins[%d]", i), fmt.Sprintf("%q", origin), `must be like "https://example.com"`)
		}
		origins[i] = strings.ToLower(origin)
	}
	o.Origins = origins
	if o.Store != nil && o.StateFile != "" {
		bad("StateFile", o.StateFile, "must be empty with Options.Store: that keeps the state")
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	return o, errors.Join(errs...)
}

// store returns what a store needs to know of the options.
func (o *Options) store() StoreOptions {
	return StoreOptions{
		Log: o.Log, StreamLife: o.StreamLife, SessionLife: o.SessionLife,
		DedupeWindow: o.DedupeWindow, DedupeLimit: o.DedupeLimit,
		Streams: o.Streams, UserSessions: o.UserSessions, IdleSessions: o.IdleSessions,
		Logger: o.Logger,
	}
}
