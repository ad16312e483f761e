package stream

import (
	"math"
	"slices"
	"sync/atomic"
	"time"
)

// Cursor is the place of one reader in a log: the number of the last event that
// it has read. Make one with Log.Cursor. Two goroutines may use a cursor at once,
// and then share the events between them.
type Cursor struct {
	log    *Log
	reader any
	// seen is the version of the log at which the cursor stood at the head and was
	// listed to be woken, or one of the constants below.
	seen atomic.Uint64

	// Guarded by log.mu.
	waiters *Waiters // nil when the cursor follows nothing
	after   uint64
	slot    int // place in waiters.caught, if it is listed there
}

// Values of seen that no version has.
const (
	behind = math.MaxUint64
	closed = behind - 1
)

// Cursor returns a cursor at the position after, which may be one that the log
// does not cover: then the first Next says so.
//
// With a notifier the cursor follows the log: once it has read everything, the next
// append makes Pending true and notifies, and then the reader is among those that
// Waiters.Take returns. The notifier must be comparable; cursors that share it are
// woken together. Call Close when the cursor is no longer needed. Without one (nil)
// the cursor follows nothing and needs no Close.
func (l *Log) Cursor(after uint64, n Notifier, reader any) *Cursor {
	c := &Cursor{log: l, reader: reader, after: after}
	c.seen.Store(behind)
	if n != nil {
		l.mu.Lock()
		defer l.mu.Unlock()
		c.waiters = l.waitersOf(n)
	}
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
	c.leave(behind)
}

// Pending reports whether Next may have something to say. It takes no lock. When
// it is false, the reader of a cursor that follows is woken by the next append.
func (c *Cursor) Pending() bool {
	seen := c.seen.Load()
	return seen != closed && seen != c.log.version.Load()
}

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
	if c.after == l.head && c.waiters != nil {
		c.list()
	}
	return from, dst, nil
}

// list puts the cursor among those that the next append wakes. It needs log.mu, and
// a cursor at the head that follows.
func (c *Cursor) list() {
	if !c.isListed() {
		c.slot = len(c.waiters.caught)
		c.waiters.caught = append(c.waiters.caught, c)
	}
	c.seen.Store(c.log.version.Load())
}

// isListed needs log.mu. The place is not cleared when those that were listed are
// woken, so it is looked up.
func (c *Cursor) isListed() bool {
	caught := c.waiters.caught
	return c.slot < len(caught) && caught[c.slot] == c
}

// leave undoes list. It needs log.mu.
func (c *Cursor) leave(seen uint64) {
	c.seen.Store(seen)
	if c.waiters == nil || !c.isListed() {
		return
	}
	caught := c.waiters.caught
	last := caught[len(caught)-1]
	caught[c.slot] = last
	last.slot = c.slot
	c.waiters.caught = slices.Delete(caught, len(caught)-1, len(caught))
}

// Close stops following: nothing is pending any more, and the reader is not woken
// for this cursor once Close has returned, unless it was taken before. It can be called twice.
func (c *Cursor) Close() {
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	c.leave(closed)
	if c.waiters != nil {
		c.waiters.forget()
		c.waiters = nil
	}
}
