package server

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/wire"
)

// Server is the endpoint that clients connect to. Make one with New; all methods
// are safe for concurrent use.
type Server struct {
	opts      Options
	log       *slog.Logger
	store     Store
	memory    *memoryStore // the store, if it is our own
	topics    topics
	users     users
	snapshots snapshots
	counters  counters
	admission *admission
	gate      *gate
	replays   replays
	workers   workers
	drain     drain
	started   time.Time
	sealed    atomic.Bool // no event is published any more

	// ctx is given to the application's functions and ends with Close.
	ctx    context.Context //nolint:containedctx // belongs to the server, not to a call
	cancel context.CancelFunc

	closing  sync.Once
	closeErr error // of the store

	mu     sync.Mutex
	closed bool
	conns  map[*conn]struct{}
	left   chan struct{} // for the drain: a connection has ended, or the last message was handled

	handling atomic.Int64 // messages that have arrived and are not settled

	wg sync.WaitGroup
}

// New returns a server, or an error that names each bad option. It takes over what
// is in Options.StateFile. The server starts nothing until it is used, but that it
// forgets in time what it has taken over.
func New(options Options) (*Server, error) {
	o, err := options.prepare()
	if err != nil {
		return nil, err
	}
	s := &Server{
		opts:    o,
		log:     o.Logger,
		started: time.Now(),
		conns:   make(map[*conn]struct{}),
		left:    make(chan struct{}, 1),
	}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	s.topics.init(s)
	s.users.init(s)
	s.snapshots.s = s
	s.counters.init()
	s.admission = newAdmission(&s.opts)
	s.gate = newGate(s.opts.Admission.Welcomes)
	s.workers.init(s)
	s.replays.free = s.opts.Admission.Replays
	if err := s.openStore(); err != nil {
		return nil, err
	}
	return s, nil
}

// openStore opens the store that the options name, or one in memory.
func (s *Server) openStore() (err error) {
	o := &s.opts
	if o.Store != nil {
		if s.store, err = o.Store(o.store()); err != nil {
			return fmt.Errorf("server: Options.Store: %w", err)
		}
		return nil
	}
	s.memory = newMemoryStore(o.store())
	s.store = s.memory
	if o.StateFile != "" {
		if err = s.memory.openState(o.StateFile); err != nil {
			return fmt.Errorf("server: Options.StateFile: %w", err)
		}
	}
	return nil
}

// Close closes every connection with 1001, ends the contexts of the application's
// functions and waits until they and all goroutines of the server have returned:
// at most about six seconds plus what those functions take. From its start on
// upgrades and probes are answered 503 and publishing fails. Last it closes the
// store, whose error it returns. A second call waits as well.
func (s *Server) Close() error {
	s.mu.Lock()
	s.closed = true
	conns := s.allConns()
	s.mu.Unlock()
	for _, c := range conns {
		c.close(&closing{code: wire.CloseGoingAway, reason: "server closed", denial: deniedClosed})
	}
	s.cancel() // not before: the end of a message would begin the one behind it
	s.wg.Wait()
	s.closing.Do(func() {
		s.workers.stop()
		s.closeErr = s.store.Close()
	})
	return s.closeErr
}

// allConns needs s.mu.
func (s *Server) allConns() []*conn {
	conns := make([]*conn, 0, len(s.conns))
	for c := range s.conns {
		conns = append(conns, c)
	}
	return conns
}

func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.allConns()
}

func (s *Server) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// enter counts a handler that runs into what Close waits for. It reports false
// once the server is closed.
func (s *Server) enter() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.wg.Add(1)
	}
	return !s.closed
}

// add registers a connection, or returns how to close it because it comes too late.
func (s *Server) add(c *conn) *closing {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return &closing{wire.CloseGoingAway, "server closed", deniedClosed}
	case s.drain.refusing:
		return s.drained()
	}
	s.conns[c] = struct{}{}
	return nil
}

func (s *Server) remove(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, c)
	poke(s.left)
}

// Disconnect closes every connection of user with a close code (1000, 1001, 1008,
// 1011-1013 or 3000-4999; any other is taken as 1008) and a reason, of which 123
// bytes are sent. It returns how many there were. Sessions stay, so what the
// client does next is up to the code; refuse it in Authenticate to keep it out.
// An empty user, the anonymous ones, is nobody.
func (s *Server) Disconnect(user string, code int, reason string) int {
	if user == "" {
		return 0
	}
	if !validCloseCode(code) {
		s.log.Error("longwire: Disconnect with a close code that cannot be sent", "code", code)
		code = wire.ClosePolicy
	}
	n := 0
	for _, c := range s.connections() {
		if c.identity.User == user && c.close(&closing{code: code, reason: reason, denial: deniedForbidden}) {
			n++
		}
	}
	return n
}

func validCloseCode(code int) bool {
	switch code {
	case wire.CloseNormal, wire.CloseGoingAway, wire.ClosePolicy, wire.CloseInternal, wire.CloseRestart, wire.CloseTryLater:
		return true
	}
	return 3000 <= code && code <= 4999
}

// clock is the elapsed time since New: a wall clock that is set moves nothing.
func (s *Server) clock() time.Duration { return time.Since(s.started) }

// newEpoch returns a name for a numbering, or a memory, that was not used before:
// 60 random bits.
func newEpoch() string { return rand.Text()[:12] }

var errPanicked = errors.New("server: panic")

// guard calls a function of the application and turns a panic into an error.
func (s *Server) guard(name string, call func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			s.counters.panics.Add(1)
			s.log.Error("longwire: panic in a function of the application", "function", name, "panic", p, "stack", string(debug.Stack()))
			err = fmt.Errorf("%w: %s: %v", errPanicked, name, p)
		}
	}()
	return call()
}
