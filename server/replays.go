package server

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// replayTime is how long a turn to replay lasts at most: who takes longer to read a
// batch costs little else meanwhile.
const replayTime = time.Second

// replays bounds how many connections at once are written what they missed, so that
// a crowd that comes back does not hold up what is live. A turn lasts for one batch.
type replays struct {
	mu    sync.Mutex
	free  int
	queue list.List // of *conn, those that wait for a turn
}

// replay is a connection's part in it, guarded by replays.mu.
type replay struct {
	turn  atomic.Pointer[time.Timer] // ends the turn, nil: it has none
	place *list.Element              // in the queue, nil: not waiting
}

// take reports whether c has a turn. If not it is in the queue now, and is woken when
// the turn comes.
func (r *replays) take(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c.replay.turn.Load() != nil:
		return true
	case c.replay.place != nil:
		return false
	case r.free > 0:
		r.free--
		r.give(c)
		return true
	}
	c.replay.place = r.queue.PushBack(c)
	return false
}

// give needs r.mu.
func (r *replays) give(c *conn) {
	var turn *time.Timer
	turn = time.AfterFunc(replayTime, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if c.replay.turn.Load() == turn {
			r.end(c)
		}
	})
	c.replay.turn.Store(turn)
}

// done ends c's turn, if it has one. It is called after each write, and when
// there is nothing to write.
func (r *replays) done(c *conn) {
	if c.replay.turn.Load() == nil {
		return // without the lock: this is the way of all that is live
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.replay.turn.Load() != nil {
		r.end(c)
	}
}

// leave is for a connection that has ended.
func (r *replays) leave(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if place := c.replay.place; place != nil {
		r.queue.Remove(place)
		c.replay.place = nil
	}
	if c.replay.turn.Load() != nil {
		r.end(c)
	}
}

// end needs r.mu, and a c with a turn.
func (r *replays) end(c *conn) {
	c.replay.turn.Swap(nil).Stop()
	first := r.queue.Front()
	if first == nil {
		r.free++
		return
	}
	next := r.queue.Remove(first).(*conn)
	next.replay.place = nil
	r.give(next)
	next.wake()
}
