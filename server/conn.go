package server

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

// What a peer can make wait for it. Above the bounds the reader stops reading.
const (
	maxControl      = 256       // frames that are not events
	maxControlBytes = 256 << 10 // of these
	maxSubs         = 512       // sub and unsub frames
)

// conn is one connection: a set of cursors, and little else. Three kinds of
// goroutines work on it: the reader, its own, takes frames apart and hands them on; a
// worker, which many connections share, is the only one that writes data; and two
// lanes, which exist only while they have something to do, call the application.
type conn struct {
	s        *Server
	identity Identity
	address  string // as Admission.Address names it
	sock     *socket
	ws       *websocket.Conn

	// Set before the goroutines start; session under mu, as end may come first.
	session Session
	user    *user
	base    bool // the client speaks the base frames only
	batch   bool // the client reads events frames and arrays of frames

	worker *worker
	job    job   // guarded by the worker's mu
	alarm  alarm // of the worker's goroutine

	// When something was last written, and when a ping was, by the server's clock. Who
	// has the connection in hand writes them.
	sentAt, askedAt, pingedAt time.Duration

	room   chan struct{} // there may be room for another frame
	stop   chan struct{} // closed with the first close or end
	paused atomic.Bool   // the reader waits for room: silence is our doing

	mu           sync.Mutex
	bye          *closing // how to close, nil: not yet
	retiring     *closing // how to close once no message is being handled
	ended        bool
	greeting     bool     // waiting for resume: no goroutine but the handler's
	pong         []byte   // payload of a WebSocket ping to be answered
	control      [][]byte // encoded frames that are not events, oldest first
	controlBytes int
	follows      []*follow
	due          dues
	msgs         lane[wire.Msg]
	msgBytes     int // bodies in msgs
	subs         lane[func()]
	rechecking   bool // asked to authorise again, and not yet begun

	hold    hold   // of the msgs lane alone
	strikes int    // the same: messages in a row that were refused for now
	replay  replay // guarded by replays.mu
}

func newConn(s *Server, id Identity) *conn {
	return &conn{
		s:        s,
		identity: id,
		sock:     newSocket(s),
		greeting: true,
		worker:   s.workers.pick(),
		askedAt:  -1,
		room:     make(chan struct{}, 1),
		stop:     make(chan struct{}),
	}
}

// poke makes a non-blocking send: whoever receives looks at everything.
func poke(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// close asks the worker to send what is queued besides events, and then a close
// frame. It reports whether the connection was open until now. It does not wait.
func (c *conn) close(how *closing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closeLocked(how)
}

func (c *conn) closeLocked(how *closing) bool {
	if c.bye != nil || c.ended {
		return false
	}
	c.bye = how
	c.dropMessages()
	close(c.stop)
	if c.greeting {
		c.sock.interrupt()
	} else {
		c.sock.finish()
		c.wake()
	}
	return true
}

// dropMessages forgets those that were not begun: they are sent again. It needs c.mu.
func (c *conn) dropMessages() {
	c.s.handled(len(c.msgs.queue))
	c.msgs.queue, c.msgBytes = nil, 0
}

// end closes the socket and gives up everything the connection held. Late or
// twice, it changes nothing.
func (c *conn) end() {
	c.mu.Lock()
	if c.ended {
		c.mu.Unlock()
		return
	}
	c.ended = true
	if c.bye == nil {
		close(c.stop)
	}
	follows, sess := c.follows, c.session
	c.follows, c.due, c.control, c.controlBytes, c.pong = nil, dues{}, nil, 0, nil
	c.mu.Unlock()

	_ = c.sock.Close() // nobody is left to tell
	c.wake()           // for the worker to let it go
	for _, f := range follows {
		f.drop(c.s)
	}
	c.s.replays.leave(c)
	c.s.admission.leave(c.address)
	if sess != nil {
		c.s.users.leave(c, sess)
		sess.Detach()
	}
	c.s.remove(c) // last: a drain that waits for it finds all of it gone
}

// sayGoodbye performs the close handshake, for at most the goodbye.
func (c *conn) sayGoodbye(how *closing) {
	c.sock.finish()
	_ = c.ws.Close(websocket.StatusCode(how.code), wire.ClipReason(how.reason)) // the peer may be gone, and we are leaving
	c.end()
}

// answer queues a frame that is not an event.
func (c *conn) answer(f wire.Frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answerLocked(f)
}

func (c *conn) answerLocked(f wire.Frame) {
	if c.ended {
		return
	}
	text := f.Append(make([]byte, 0, 128)) // most fit
	c.control = append(c.control, text)
	c.controlBytes += len(text)
	c.wake()
}

// hasRoom reports whether one more frame of the client can be taken in.
func (c *conn) hasRoom() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.control) < maxControl && c.controlBytes < maxControlBytes &&
		len(c.msgs.queue) < c.s.opts.Window && c.msgBytes < wire.WindowBytes &&
		len(c.subs.queue) < maxSubs
}

// isOpen reports whether frames of the client still count.
func (c *conn) isOpen() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye == nil && !c.ended
}

// lane is a queue of what one goroutine at a time does in order. The goroutine
// exists only while there is something to do.
type lane[T any] struct {
	queue   []T
	running bool
}

// enter queues item in a lane of c and starts the lane if it rests. It needs c.mu.
func enter[T any](c *conn, l *lane[T], item T, do func(T)) {
	l.queue = append(l.queue, item)
	if !l.running {
		l.running = true
		c.s.wg.Go(func() { drive(c, l, do) })
	}
}

// drive works a lane until it is empty.
func drive[T any](c *conn, l *lane[T], do func(T)) {
	for {
		c.mu.Lock()
		if len(l.queue) == 0 {
			l.queue, l.running = nil, false
			if c.retiring != nil && !c.msgs.running {
				c.closeLocked(c.retiring)
			}
			c.mu.Unlock()
			return
		}
		item := l.queue[0]
		l.queue = l.queue[1:]
		c.mu.Unlock()
		poke(c.room)
		do(item)
	}
}

// due says what the passing of time asks of who writes.
type due struct {
	heartbeat, ping, silent, expired bool
}

func (d due) anything() bool { return d != due{} }

// look judges by elapsed time what is due, and how long nothing will be when nothing
// is. sent is when something was last written, asked and pinged when the write of the
// last ping began and ended, all by the server's clock.
func (c *conn) look(sent, asked, pinged time.Duration) (d due, sleep time.Duration) {
	now, interval := c.s.clock(), c.s.opts.Heartbeat
	heard := time.Duration(c.sock.heard.Load())
	sleep = interval
	until := func(t time.Duration) bool {
		if now < t {
			sleep = min(sleep, t-now)
		}
		return now >= t
	}
	d.heartbeat = until(sent + interval)
	switch {
	case c.paused.Load():
	case asked <= heard: // a pong can be there before the write of its ping has returned
		d.ping = until(heard + interval)
	default:
		// Counted from the ping: before it, a long write may have kept us busy.
		d.silent = until(pinged + interval)
	}
	if !c.identity.Expires.IsZero() {
		left := time.Until(c.identity.Expires)
		d.expired = left <= 0
		sleep = min(sleep, max(left, 0))
	}
	return d, sleep
}
