package server

import (
	"context"
	"sync"
	"time"
)

// answersBytes bounds the results that are remembered for one user.
const answersBytes = 1 << 20

// answers remembers the answers to the messages of one user, or of one anonymous
// session, for the window. It refuses when it is full and never evicts: an id that
// was forgotten early would run a second time.
type answers struct {
	id     string // what clients are told: it changes when memory was lost
	window time.Duration
	limit  int
	clock  func() time.Duration

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
	answer Answer
	at     time.Duration
}

func (m *memoryStore) newAnswers(id string) *answers {
	return &answers{id: id, window: m.opts.DedupeWindow, limit: m.opts.DedupeLimit, clock: m.clock}
}

// Admit implements Session.
func (a *attachment) Admit(ctx context.Context, id string, sum [16]byte) (Finding, error) {
	if !a.session.store.sessions.isNewest(a) {
		return Finding{Kind: Superseded}, nil
	}
	r, f := a.session.answers.admit(id, sum)
	if r == nil {
		return f, nil
	}
	select {
	case <-r.done:
		return Finding{Kind: Answered, Answer: r.answer}, nil
	case <-ctx.Done():
		return Finding{}, ctx.Err()
	}
}

// Settle implements Session.
func (a *attachment) Settle(id string, answer Answer) Answer {
	a.session.answers.settle(id, answer)
	return answer
}

// admit looks the message up and, when it is new, records it as running. It returns
// the record of one that has an answer, or will have, once record.done is closed.
func (m *answers) admit(id string, sum [16]byte) (known *record, f Finding) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	if r := m.byID[id]; r != nil {
		if r.body != sum {
			return nil, Finding{Kind: Conflict}
		}
		return r, Finding{}
	}
	if len(m.byID) >= m.limit || m.bytes >= answersBytes {
		return nil, Finding{Kind: Full, Wait: m.room()}
	}
	if m.byID == nil {
		m.byID = make(map[string]*record)
	}
	m.byID[id] = &record{id: id, body: sum, done: make(chan struct{})}
	return nil, Finding{Kind: Admitted}
}

// room returns how long to wait for the oldest answer to go, within reason.
func (m *answers) room() time.Duration {
	const least, most = time.Second, 30 * time.Second
	if len(m.settled) == 0 {
		return least
	}
	return min(max(m.settled[0].at+m.window-m.clock(), least), most)
}

// settle sets the answer to a message that was admitted. A refusal for now is not
// remembered, but whoever waits for it gets it.
func (m *answers) settle(id string, a Answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := m.byID[id]
	r.answer, r.at = a, m.clock()
	if a.Refusal != nil && a.Refusal.Retry > 0 {
		delete(m.byID, id)
	} else {
		m.settled = append(m.settled, r)
		m.bytes += len(a.Result)
	}
	close(r.done)
}

// expire needs m.mu.
func (m *answers) expire() {
	now, n := m.clock(), 0
	for n < len(m.settled) && now-m.settled[n].at >= m.window {
		r := m.settled[n]
		delete(m.byID, r.id)
		m.bytes -= len(r.answer.Result)
		m.settled[n] = nil
		n++
	}
	m.settled = m.settled[n:]
	if len(m.byID) == 0 {
		m.byID, m.settled = nil, nil // a map never shrinks
	}
}

func (m *answers) isEmpty() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	return len(m.byID) == 0
}
