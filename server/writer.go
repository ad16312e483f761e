package server

import (
	"errors"
	"os"

	"github.com/longwire/longwire/wire"
)

// serve is one turn of the connection: it writes about a batch, or does what is due.
// It runs in the connection's worker, and nothing else writes data to the connection
// but the goroutine to which it gives what the peer does not take at once.
func (c *conn) serve() {
	o := outputs.Get().(*output)
	bye := c.fill(o)
	if o.isEmpty() && c.hasEnded() {
		o.release()
		c.worker.leave(c)
		return
	}
	if bye == nil && (o.isEmpty() || c.alarm.at == 0) && !c.attend(o) {
		o.release()
		c.giveUp()
		return
	}
	if o.isEmpty() {
		more := o.more
		o.release()
		c.s.replays.done(c)
		if bye == nil {
			c.worker.rest(c, more)
			return
		}
		c.s.wg.Go(func() { c.sayGoodbye(bye) })
		c.worker.leave(c)
		return
	}
	o.finish()
	rest, held, err := c.sock.sendNow(&c.worker.direct, o.parts())
	if len(rest) == 0 {
		c.wrote(o, bye, err)
		return
	}
	c.s.wg.Go(func() { c.wrote(o, bye, c.sock.sendRest(rest, held)) })
}

// wrote ends a turn in which o was written, or was not because of err.
func (c *conn) wrote(o *output, bye *closing, err error) {
	c.s.replays.done(c)
	now := c.s.clock()
	if o.frames > 0 {
		c.sentAt = now // a browser's script does not see control frames
	}
	if o.pings {
		c.pingedAt = now
	}
	c.s.counters.wrote(o)
	more := o.more
	o.release()
	if err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) && bye == nil {
			c.s.counters.stalled.Add(1)
		}
		c.giveUp()
		return
	}
	c.worker.rest(c, more)
}

// giveUp ends the connection and the turn, and not in the worker: TLS may wait for the
// peer even to close.
func (c *conn) giveUp() {
	c.s.wg.Go(func() {
		c.end()
		c.worker.rest(c, true)
	})
}

// hasEnded reports whether nothing can be written any more.
func (c *conn) hasEnded() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// isClosing reports whether a close was asked for and can still be said.
func (c *conn) isClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bye != nil && !c.ended
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
	o.more = c.bye != nil || len(c.control) > 0
	if c.bye != nil {
		return c.bye
	}
	c.readDue(o)
	return nil
}

// attend puts into o what the passing of time asks for, and has the connection served
// again when something will be due. It reports false when the peer is gone.
func (c *conn) attend(o *output) bool {
	d, sleep := c.look(c.sentAt, c.askedAt, c.pingedAt)
	switch {
	case d.silent:
		c.s.counters.silent.Add(1)
		return false
	case d.expired:
		c.close(&closing{code: wire.CloseLoginExpired, reason: "login expired"})
		return true
	case !d.anything():
		c.worker.alarms.set(c, c.s.clock()+sleep)
		return true
	}
	o.more = true
	if d.heartbeat && !o.holdsMessage() {
		o.frame(wire.Heartbeat{Stale: c.s.store.Stale().Milliseconds()}, false)
	}
	if d.ping {
		o.control(opPing, nil)
		o.pings = true
		c.askedAt = c.s.clock() // its pong can be there before its write returns
	}
	return true
}
