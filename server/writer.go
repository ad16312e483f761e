package server

import (
	"errors"
	"os"
	"time"

	"github.com/longwire/longwire/wire"
)

// writeLoop is the only place where data is written to the connection. It sleeps
// until one of the logs has grown, a frame was queued or something is due.
func (c *conn) writeLoop() {
	defer c.end()
	w := &writer{conn: c, sent: c.s.clock(), asked: -1}
	// The timer pokes the same channel as everybody else. (A timer's own channel
	// would cost a select case per wake, and crashes the race detector in a synctest
	// bubble when two goroutines meet an expired one: go1.26.)
	timer := time.AfterFunc(c.s.opts.Heartbeat, func() { poke(c.wake) })
	defer timer.Stop()
	rings := c.s.clock() + c.s.opts.Heartbeat
	for {
		bye, err := w.flush()
		if err != nil {
			if errors.Is(err, os.ErrDeadlineExceeded) && bye == nil {
				c.s.counters.stalled.Add(1)
			}
			return
		}
		if bye != nil {
			c.sayGoodbye(bye)
			return
		}
		d, sleep := c.look(w.sent, w.asked, w.pinged)
		if d.anything() {
			if !w.act(d) {
				return
			}
			continue
		}
		if now := c.s.clock(); rings <= now || now+sleep < rings {
			rings = now + sleep
			timer.Reset(sleep)
		}
		select {
		case <-c.wake:
		case <-c.stop:
			if !c.isClosing() {
				return
			}
		}
	}
}

// isClosing reports whether a close was asked for and can still be said.
func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye != nil && !c.ended
}

// writer is the state of the write loop.
type writer struct {
	conn                *conn
	sent, asked, pinged time.Duration // see look
}

// flush writes until nothing is left to write, and returns how to close then, if
// that was asked for.
func (w *writer) flush() (*closing, error) {
	for {
		o := outputs.Get().(*output)
		bye := w.conn.fill(o)
		if len(o.buf) == 0 {
			o.release()
			w.conn.s.replays.done(w.conn)
			return bye, nil
		}
		err := w.write(o)
		w.conn.s.replays.done(w.conn)
		if err != nil {
			return bye, err
		}
	}
}

// write hands o to the socket and releases it.
func (w *writer) write(o *output) error {
	c := w.conn
	o.finish()
	err := c.sock.send(o.buf, o.tail, o.end)
	if o.frames > 0 {
		w.sent = c.s.clock() // a browser's script does not see control frames
	}
	c.s.counters.wrote(o)
	o.release()
	return err
}

// fill puts into o what the connection has to say, up to about a batch: first what
// is not an event, then one round over the streams. When the connection is to be
// closed, it returns how, and there are no events any more.
func (c *conn) fill(o *output) *closing {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pong != nil {
		o.control(opPong, c.pong)
		c.pong = nil
	}
	n := 0
	for n < len(c.control) && !o.isFull() {
		text := c.control[n]
		o.text(text, c.batch)
		c.controlBytes -= len(text)
		c.control[n] = nil
		n++
	}
	if c.control = c.control[n:]; len(c.control) == 0 {
		c.control = nil
	}
	if n > 0 {
		poke(c.room)
	}
	if c.bye != nil {
		return c.bye
	}
	for i := range c.follows {
		if o.isFull() {
			c.turn = (c.turn + i) % len(c.follows)
			break
		}
		c.read(c.follows[(c.turn+i)%len(c.follows)], o)
	}
	return nil
}

// act does what is due. It reports false when the peer is gone.
func (w *writer) act(d due) bool {
	c := w.conn
	switch {
	case d.silent:
		c.s.counters.silent.Add(1)
		return false
	case d.expired:
		c.close(&closing{code: wire.CloseLoginExpired, reason: "login expired"})
		return true
	}
	o := outputs.Get().(*output)
	if d.ping {
		o.control(opPing, nil)
	}
	if d.heartbeat {
		o.frame(wire.Heartbeat{Stale: c.s.store.Stale().Milliseconds()}, false)
	}
	begun := c.s.clock()
	if w.write(o) != nil {
		return false
	}
	if d.ping {
		w.asked, w.pinged = begun, c.s.clock()
	}
	return true
}
