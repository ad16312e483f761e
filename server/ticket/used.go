package ticket

import (
	"context"
	"errors"
	"sync"
	"time"
)

// Used remembers which tickets were used. An implementation over a shared store
// makes a ticket good for one dial on all nodes together: one atomic write that
// fails when the key is there, as in Redis's SET with NX and PXAT.
type Used interface {
	// Use reports whether this is the first use of id, and remembers it until at
	// least until, which is at most 5 min 10 s away. Of concurrent calls with one
	// id, on whatever nodes, exactly one is the first. An id has at most 64 bytes.
	//
	// On an error the dial is refused for now, and the ticket may be used up. The
	// server logs the error: keep id out of its text.
	Use(ctx context.Context, id string, until time.Time) (first bool, err error)
}

// memory is Used within one process. It forgets nothing early: ids lie together by
// the second in which their tickets end, so that a second that is over is dropped
// as a whole.
type memory struct {
	limit int

	mu   sync.Mutex
	n    int                           // ids in all of ends
	ends map[int64]map[string]struct{} // some hundred: tickets live for MaxLife
	from int64                         // the first second that is remembered
}

var errFull = errors.New("ticket: as many used tickets are remembered as Options.Limit allows")

func newMemory(limit int) *memory {
	return &memory{limit: limit, ends: make(map[int64]map[string]struct{})}
}

// jump is how far ahead of the clock, in seconds, a ticket that is taken can end.
const jump = int64((MaxLife + 2*skew) / time.Second)

// Use does not block, so it needs no context.
func (m *memory) Use(_ context.Context, id string, until time.Time) (bool, error) {
	return m.use(time.Now().Unix(), id, until.Unix())
}

func (m *memory) use(now int64, id string, end int64) (bool, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.advance(now)
	if end < m.from {
		return false, nil
	}
	if _, used := m.ends[end][id]; used {
		return false, nil
	}
	if m.n >= m.limit {
		return false, errFull
	}
	if m.ends[end] == nil {
		m.ends[end] = make(map[string]struct{})
	}
	m.ends[end][id] = struct{}{}
	m.n++
	return true, nil
}

// advance drops the seconds before now. When the clock is set back those stay
// refused; when it had been wrong by years, only until none of them can be good.
func (m *memory) advance(now int64) {
	if now <= m.from {
		m.from = min(m.from, now+jump)
		return
	}
	m.from = now
	for end, ids := range m.ends {
		if end < now {
			m.n -= len(ids)
			delete(m.ends, end)
		}
	}
}
