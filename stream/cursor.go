package stream

import (
	"slices"
	"sync/atomic"
	"time"
)

// Cursor is the place of one reader in a log: the number of the last event that
// it has read. Make one with Log.Cursor. Two goroutines may use a cursor at once,
// and then share the events between them.
type Cursor struct {
	log    *Log
	signal chan<- struct{}
	// pending is false only while the cursor stands at the head and is listed in
	// log.caught, or when it does not follow.
	pending atomic.Bool

	// Guarded by log.mu.
	after uint64
	slot  int // place in log.caught, or notCaught
}

const notCaught = -1

// Cursor returns a cursor at the position after, which may be one that the log
// does not cover: then the first Next says so.
//
// With a signal channel the cursor follows the log: an append makes a non-blocking
// send on signal if the cursor had read everything, and Pending is true from then
// on. The channel should have room for one element; many cursors can share it.
// Call Close when the cursor is no longer needed. Without a channel (nil) the
// cursor follows nothing and needs no Close.
func (l *Log) Cursor(after uint64, signal chan<- struct{}) *Cursor {
	c := &Cursor{log: l, signal: signal, after: after, slot: notCaught}
	c.pending.Store(true)
	return c
}

// Log returns the log that the cursor was made by.
func (c *Cursor) Log() *Log { return c.log }

// After returns the position: the number of the last event that was read.
func (c *Cursor) After() uint64 {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	return c.after
}

// Seek moves the cursor, in either direction.
func (c *Cursor) Seek(after uint64) {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.after = after
	c.leave()
	c.pending.Store(true)
}

// Pending reports whether Next may have something to say. It takes no lock. When
// it is false, a cursor that follows gets a signal with the next append.
func (c *Cursor) Pending() bool { return c.pending.Load() }

// Next reads the events behind the position, as many as fit into budget bytes of
// data and at least one, appends their data to dst and moves the cursor behind
// them. from is the number of the first; nothing appended means that the cursor
// is at the head. Do not modify the data: the log and other readers share it.
//
// The error is ErrFellOff, and then the cursor has not moved: Seek it. Or it is
// ErrVoid: there is nothing to be read here any more.
func (c *Cursor) Next(dst [][]byte, budget int) (from uint64, events [][]byte, err error) {
	l := c.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.void {
		return 0, dst, ErrVoid
	}
	l.expire(time.Now())
	first := l.first()
	if c.after < first || c.after > l.head {
		return 0, dst, ErrFellOff
	}
	from = c.after + 1
	for i, n := 0, int(l.head-c.after); i < n; i++ { //nolint:gosec // at most the entries in memory
		data := l.entries.at(int(c.after - first)).data //nolint:gosec // the same
		if budget -= len(data); budget < 0 && i > 0 {
			break
		}
		dst = append(dst, data)
		c.after++
	}
	if c.after == l.head {
		c.join()
	}
	return from, dst, nil
}

// join lists the cursor among those to be told of the next append.
func (c *Cursor) join() {
	if c.signal == nil || c.slot != notCaught {
		return
	}
	c.slot = len(c.log.caught)
	c.log.caught = append(c.log.caught, c)
	c.pending.Store(false)
}

// leave undoes join.
func (c *Cursor) leave() {
	if c.slot == notCaught {
		return
	}
	caught := c.log.caught
	last := caught[len(caught)-1]
	caught[c.slot] = last
	last.slot = c.slot
	c.slot = notCaught
	c.log.caught = slices.Delete(caught, len(caught)-1, len(caught))
}

// Close stops following. There is no signal after it has returned, except one
// that was already in the channel. It can be called twice.
func (c *Cursor) Close() {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.leave()
	c.signal = nil
	c.pending.Store(false)
}
