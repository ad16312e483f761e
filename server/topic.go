package server

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/longwire/longwire/stream"
)

// topic is a stream that is followed on this node: what the store has of it, and
// what is known of its snapshots.
type topic struct {
	name   string        // "" for a session's own stream
	feed   Feed          // set once ready is closed
	state  *atomic.Int32 // a snapshotState
	flight *flight       // the running snapshot, guarded by snapshots.mu

	// Of a named stream.
	ready     chan struct{} // closed when feed or err is set
	err       error         // why there is no feed
	followers int           // guarded by topics.mu
}

func (t *topic) isOwn() bool { return t.name == "" }

func (t *topic) log() *stream.Log { return t.feed.Log() }

// snapshotState is what the last run of the snapshot function said. It decides
// only how a stream without a position is answered.
type snapshotState = int32

const (
	snapshotUnknown snapshotState = iota
	snapshotExists
	snapshotNone
)

// topics are the named streams that are followed on this node.
type topics struct {
	s   *Server
	mu  sync.Mutex
	all map[string]*topic

	ownState atomic.Int32 // a snapshotState, of all sessions' own streams
}

func (ts *topics) init(s *Server) {
	ts.s = s
	ts.all = make(map[string]*topic)
}

// follow returns the named stream for a follower. The store is asked once for all
// who come meanwhile. Unless there is an error it needs a leave.
func (ts *topics) follow(ctx context.Context, name string) (*topic, error) {
	ts.mu.Lock()
	t := ts.all[name]
	if t != nil {
		t.followers++
		ts.mu.Unlock()
		return t, ts.await(ctx, t)
	}
	t = &topic{name: name, state: new(atomic.Int32), ready: make(chan struct{}), followers: 1}
	ts.all[name] = t
	ts.mu.Unlock()

	t.feed, t.err = ts.s.store.Follow(ctx, name)
	if t.err != nil {
		ts.mu.Lock()
		delete(ts.all, name)
		ts.mu.Unlock()
	}
	close(t.ready)
	return t, t.err
}

func (ts *topics) await(ctx context.Context, t *topic) error {
	select {
	case <-t.ready:
		return t.err
	case <-ctx.Done():
		ts.leave(t)
		return ctx.Err()
	}
}

// leave undoes a follow.
func (ts *topics) leave(t *topic) {
	if t.isOwn() {
		return // that goes with the session
	}
	ts.mu.Lock()
	t.followers--
	last := t.followers == 0 && t.err == nil
	if last {
		delete(ts.all, t.name)
	}
	ts.mu.Unlock()
	if last {
		t.feed.Close()
	}
}
