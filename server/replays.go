package server

import (
	"container/list"
	"sync"
)

// replays bounds how many connections at once are written what they missed, so that
// a crowd that comes back does not hold up what is live. A turn lasts for one
// batch when others wait.
type replays struct {
	mu    sync.Mutex
	free  int
	queue list.List // of *conn, those without a turn
}

// replay is a connection's part in it, guarded by replays.mu.
type replay struct {
	turn  bool
	place *list.Element // in the queue, nil: not waiting
}

// take reports whether c has a turn. If not it is in the queue now, and its wake is
// poked when the turn comes.
func (r *replays) take(c *conn) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case c.replay.turn:
		return true
	case c.replay.place != nil:
		return false
	case r.free > 0:
		r.free--
		c.replay.turn = true
		return true
	}
	c.replay.place = r.queue.PushBack(c)
	return false
}

// yield ends c's turn if others wait. c may still have something to replay.
func (r *replays) yield(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue.Len() > 0 {
		r.end(c)
	}
}

// leave ends c's part: there is nothing left to replay, or c has ended.
func (r *replays) leave(c *conn) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end(c)
}

// end needs r.mu.
func (r *replays) end(c *conn) {
	if place := c.replay.place; place != nil {
		r.queue.Remove(place)
		c.replay.place = nil
	}
	if !c.replay.turn {
		return
	}
	c.replay.turn = false
	first := r.queue.Front()
	if first == nil {
		r.free++
		return
	}
	next := r.queue.Remove(first).(*conn)
	next.replay = replay{turn: true}
	poke(next.wake)
}
