package server

import (
	"container/list"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/stream"
)

// memoryStream is a named stream of a memoryStore, and the Feed of all who follow it.
type memoryStream struct {
	streams *memoryStreams
	name    string
	log     *stream.Log

	// Guarded by streams.mu.
	followers int
	idle      *list.Element // in streams.idle, nil while it is followed
	listed    time.Duration // when it was put at the end of streams.idle

	used atomic.Int64 // by memoryStore.clock: last publish, or when the last follower left
}

// memoryStreams are the named streams. A stream that nobody follows stays on the
// idle list until its life is over.
type memoryStreams struct {
	store *memoryStore
	mu    sync.RWMutex
	all   map[string]*memoryStream
	idle  list.List // of *memoryStream, longest idle first
}

func (ms *memoryStreams) init(store *memoryStore) {
	ms.store = store
	ms.all = make(map[string]*memoryStream)
}

// Follow implements Store.
func (m *memoryStore) Follow(_ context.Context, name string) (Feed, error) {
	ms := &m.streams
	ms.mu.Lock()
	defer ms.mu.Unlock()
	st := ms.all[name]
	if st == nil {
		if len(ms.all) >= m.opts.Streams {
			return nil, ErrTooManyStreams
		}
		st = ms.create(name)
	}
	if st.idle != nil {
		ms.idle.Remove(st.idle)
		st.idle = nil
	}
	st.followers++
	return st, nil
}

// Log implements Feed.
func (st *memoryStream) Log() *stream.Log { return st.log }

// Sync implements Feed: the log is the store.
func (st *memoryStream) Sync(context.Context) error { return nil }

// Close implements Feed.
func (st *memoryStream) Close() {
	ms := st.streams
	ms.mu.Lock()
	st.followers--
	if st.followers == 0 {
		st.used.Store(int64(ms.store.clock()))
		ms.list(st)
	}
	ms.mu.Unlock()
	ms.store.wantSweep()
}

// create needs ms.mu.
func (ms *memoryStreams) create(name string) *memoryStream {
	st := &memoryStream{streams: ms, name: name, log: ms.store.newLog()}
	ms.all[name] = st
	return st
}

// list needs ms.mu, and a stream that is not listed.
func (ms *memoryStreams) list(st *memoryStream) {
	st.listed = ms.store.clock()
	st.idle = ms.idle.PushBack(st)
}

// publish appends under the lock that forget takes, so that no event goes to a log
// that has just been forgotten while its stream gets a new one.
func (ms *memoryStreams) publish(name string, data []byte) (uint64, error) {
	ms.mu.RLock()
	if st := ms.all[name]; st != nil {
		defer ms.mu.RUnlock()
		st.used.Store(int64(ms.store.clock()))
		return st.log.Append(data)
	}
	ms.mu.RUnlock()

	defer ms.store.wantSweep()
	ms.mu.Lock()
	defer ms.mu.Unlock()
	st := ms.all[name]
	if st == nil {
		st = ms.create(name)
		ms.list(st)
	}
	st.used.Store(int64(ms.store.clock()))
	return st.log.Append(data)
}

// forget drops the streams whose life is over and reports whether idle ones are
// left. One that was published to since it was listed goes to the back again, so
// those behind it may be kept for longer than their life, never for less.
func (ms *memoryStreams) forget() bool {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now := ms.store.clock()
	for range ms.idle.Len() {
		e := ms.idle.Front()
		st := e.Value.(*memoryStream)
		used := time.Duration(st.used.Load())
		switch {
		case now-used >= ms.store.opts.StreamLife:
			ms.idle.Remove(e)
			delete(ms.all, st.name)
		case used > st.listed:
			st.listed = now
			ms.idle.MoveToBack(e)
		default:
			return true
		}
	}
	return ms.idle.Len() > 0
}

func (ms *memoryStreams) count() int {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	return len(ms.all)
}

func (ms *memoryStreams) seal() {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	for _, st := range ms.all {
		st.log.Seal()
	}
}
