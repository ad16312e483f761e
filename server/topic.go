package server

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/stream"
)

// topic is a stream on this node: its log, and what is known of its snapshots.
type topic struct {
	name    string   // "" for a session's own stream
	session *session // nil for a named stream
	log     *stream.Log
	state   *atomic.Int32 // a snapshotState
	flight  *flight       // the running snapshot, guarded by snapshots.mu

	// Of named streams, guarded by topics.mu.
	followers int
	idle      *list.Element // in topics.idle, nil while it is followed
	listed    time.Duration // when it was put at the end of topics.idle

	used atomic.Int64 // by Server.clock: last publish, or when the last follower left
}

// snapshotState is what the last run of the snapshot function said. It decides
// only how a stream without a position is answered.
type snapshotState = int32

const (
	snapshotUnknown snapshotState = iota
	snapshotExists
	snapshotNone
)

// topics are the named streams. A stream that nobody follows stays on the idle
// list until its life is over.
type topics struct {
	s    *Server
	mu   sync.RWMutex
	all  map[string]*topic
	idle list.List // of *topic, longest idle first
}

func (ts *topics) init(s *Server) {
	ts.s = s
	ts.all = make(map[string]*topic)
}

// follow returns the named stream for a follower, and nil when it would have to be
// created beyond the bound. Every follow needs a leave.
func (ts *topics) follow(name string) *topic {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.all[name]
	if t == nil {
		if len(ts.all) >= ts.s.opts.Streams {
			return nil
		}
		t = ts.create(name)
	}
	if t.idle != nil {
		ts.idle.Remove(t.idle)
		t.idle = nil
	}
	t.followers++
	return t
}

func (ts *topics) leave(t *topic) {
	if t.session != nil {
		return
	}
	ts.mu.Lock()
	t.followers--
	if t.followers == 0 {
		t.used.Store(int64(ts.s.clock()))
		ts.list(t)
	}
	ts.mu.Unlock()
	ts.s.wantSweep()
}

// create needs ts.mu.
func (ts *topics) create(name string) *topic {
	t := &topic{name: name, log: ts.s.newLog(), state: new(atomic.Int32)}
	ts.all[name] = t
	return t
}

// list needs ts.mu, and a topic that is not listed.
func (ts *topics) list(t *topic) {
	t.listed = ts.s.clock()
	t.idle = ts.idle.PushBack(t)
}

// publish appends under the lock that forget takes, so that no event goes to a log
// that has just been forgotten while its stream gets a new one.
func (ts *topics) publish(name string, data []byte) (uint64, error) {
	ts.mu.RLock()
	if t := ts.all[name]; t != nil {
		defer ts.mu.RUnlock()
		t.used.Store(int64(ts.s.clock()))
		return t.log.Append(data)
	}
	ts.mu.RUnlock()

	defer ts.s.wantSweep()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.all[name]
	if t == nil {
		t = ts.create(name)
		ts.list(t)
	}
	t.used.Store(int64(ts.s.clock()))
	return t.log.Append(data)
}

// forget drops the streams whose life is over and reports whether idle ones are
// left. One that was published to since it was listed goes to the back again, so
// those behind it may be kept for longer than their life, never for less.
func (ts *topics) forget() bool {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := ts.s.clock()
	for range ts.idle.Len() {
		e := ts.idle.Front()
		t := e.Value.(*topic)
		used := time.Duration(t.used.Load())
		switch {
		case now-used >= ts.s.opts.StreamLife:
			ts.idle.Remove(e)
			delete(ts.all, t.name)
		case used > t.listed:
			t.listed = now
			ts.idle.MoveToBack(e)
		default:
			return true
		}
	}
	return ts.idle.Len() > 0
}

func (ts *topics) count() int {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	return len(ts.all)
}
