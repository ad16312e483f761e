package server

import (
	"crypto/sha256"
	"encoding/json"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// memoryBytes bounds the results that are remembered for one user.
const memoryBytes = 1 << 20

// memory remembers the answers to the messages of one user, or of one anonymous
// session, for the window. It refuses when it is full and never evicts: an id that
// was forgotten early would run a second time.
type memory struct {
	id     string // what clients are told: it changes when memory was lost
	window time.Duration
	limit  int
	clock  func() time.Duration

	limiter *rate.Limiter // of messages, resent ones included

	mu      sync.Mutex
	byID    map[string]*record
	settled []*record // oldest first
	bytes   int       // of their results
}

// record is one message.
type record struct {
	id   string
	body [16]byte      // what tells it from another message under the same id
	done chan struct{} // closed when answer is set
	// Set before done is closed, not changed afterwards.
	answer answer
	at     time.Duration
}

// answer is what a message comes to: an ack with its result, or a nack.
type answer struct {
	result  json.RawMessage
	refusal *Refusal // nil: accepted
}

func newMemory(id string, s *Server) *memory {
	a := &s.opts.Admission
	return &memory{
		id: id, window: s.opts.DedupeWindow, limit: s.opts.DedupeLimit, clock: s.clock,
		limiter: rate.NewLimiter(rate.Limit(a.MessageRate), a.MessageBurst),
	}
}

// finding is what memory says of a message that arrives.
type finding int

const (
	admitted  finding = iota // new: run it and settle the record
	known                    // its answer is there, or will be once record.done is closed
	conflicts                // the id was used with another body
	full                     // no room to remember it
)

// admit looks the message up and, when it is new, records it as running. For full,
// wait is when to try again.
func (m *memory) admit(id string, body []byte) (r *record, f finding, wait time.Duration) {
	sum := sha256.Sum256(body)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if r = m.byID[id]; r != nil {
		if r.body != [16]byte(sum[:16]) {
			return r, conflicts, 0
		}
		return r, known, 0
	}
	if len(m.byID) >= m.limit || m.bytes >= memoryBytes {
		return nil, full, m.room()
	}
	r = &record{id: id, body: [16]byte(sum[:16]), done: make(chan struct{})}
	if m.byID == nil {
		m.byID = make(map[string]*record)
	}
	m.byID[id] = r
	return r, admitted, 0
}

// room returns how long to wait for the oldest answer to go, within reason.
func (m *memory) room() time.Duration {
	const least, most = time.Second, 30 * time.Second
	if len(m.settled) == 0 {
		return least
	}
	return min(max(m.settled[0].at+m.window-m.clock(), least), most)
}

// settle sets the answer to a message that was admitted. A refusal for now is not
// remembered, but whoever waits for it gets it.
func (m *memory) settle(r *record, a answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r.answer, r.at = a, m.clock()
	if a.refusal != nil && a.refusal.Retry > 0 {
		delete(m.byID, r.id)
	} else {
		m.settled = append(m.settled, r)
		m.bytes += len(a.result)
	}
	close(r.done)
}

// expire needs m.mu.
func (m *memory) expire() {
	now, n := m.clock(), 0
	for n < len(m.settled) && now-m.settled[n].at >= m.window {
		r := m.settled[n]
		delete(m.byID, r.id)
		m.bytes -= len(r.answer.result)
		m.settled[n] = nil
		n++
	}
	m.settled = m.settled[n:]
	if len(m.byID) == 0 {
		m.byID, m.settled = nil, nil // a map never shrinks
	}
}

func (m *memory) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return len(m.byID) == 0
}
