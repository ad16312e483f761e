package server

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/stream"
)

// memoryStore is the Store of one node: gone with it, unless a file carries over what
// it holds.
type memoryStore struct {
	opts     StoreOptions
	streams  memoryStreams
	sessions sessions
	dedupeID string // names the memory of the message ids of users
	started  time.Time
	sealed   atomic.Bool // no event is published any more
	state    *stateFile  // nil without Options.StateFile

	mu      sync.Mutex
	closed  bool
	sweeper *time.Timer // nil while there is nothing to forget
}

// sweepEvery is how often what nobody uses is looked for. So it is kept for up to
// that much longer than its life.
const sweepEvery = 15 * time.Second

func newMemoryStore(o StoreOptions) *memoryStore {
	m := &memoryStore{opts: o, dedupeID: newEpoch(), started: time.Now()}
	m.streams.init(m)
	m.sessions.init(m)
	return m
}

// Publish implements Store.
func (m *memoryStore) Publish(_ context.Context, name string, data []byte) (uint64, error) {
	return m.streams.publish(name, data)
}

// PublishTo implements Store.
func (m *memoryStore) PublishTo(_ context.Context, user string, data []byte) (n int, err error) {
	for _, log := range m.sessions.ofUser(user) {
		if _, err = log.Append(data); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}

// PublishToSession implements Store.
func (m *memoryStore) PublishToSession(_ context.Context, id string, data []byte) (uint64, error) {
	log := m.sessions.log(id)
	if log == nil {
		return 0, ErrNoSession
	}
	return log.Append(data)
}

// Stale implements Store.
func (m *memoryStore) Stale() time.Duration { return 0 }

// Stats implements Store.
func (m *memoryStore) Stats() StoreStats {
	return StoreStats{Streams: m.streams.count(), Sessions: m.sessions.count()}
}

// Close implements Store.
func (m *memoryStore) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.closed = true
	if m.sweeper != nil {
		m.sweeper.Stop()
	}
	return nil
}

// seal ends publishing: logs that are made from now on are born sealed.
func (m *memoryStore) seal() {
	m.sealed.Store(true)
	m.streams.seal()
	m.sessions.seal()
}

// wantSweep makes sure that what is idle now is looked at later.
func (m *memoryStore) wantSweep() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.sweeper == nil && !m.closed {
		m.sweeper = time.AfterFunc(sweepEvery, m.sweep)
	}
}

func (m *memoryStore) sweep() {
	m.mu.Lock()
	m.sweeper = nil // what becomes idle from now on may not be seen by this one
	m.mu.Unlock()
	again := m.sessions.forget()
	again = m.streams.forget() || again
	if again {
		m.wantSweep()
	}
}

// clock is the elapsed time since the store was made: a wall clock that is set moves
// nothing.
func (m *memoryStore) clock() time.Duration { return time.Since(m.started) }

func (m *memoryStore) newLog() *stream.Log {
	log := stream.NewLog(newEpoch(), m.opts.Log)
	if m.sealed.Load() {
		log.Seal()
	}
	return log
}
