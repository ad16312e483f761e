package stream

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// MaxSeq is the largest sequence number: a JavaScript number is exact up to here.
const MaxSeq = 1<<53 - 1

// Defaults of Limits.
const (
	DefaultEvents = 1000
	DefaultBytes  = 1 << 20
	DefaultAge    = 5 * time.Minute
)

var (
	// ErrTooLarge is returned for an event that is larger than all that the log
	// may hold. The log is unchanged.
	ErrTooLarge = errors.New("stream: event is larger than the log's bound")
	// ErrFull is returned when the numbers are used up. The log is unchanged.
	ErrFull = errors.New("stream: log has reached the last sequence number")
	// ErrSealed is returned after Seal. The log is unchanged.
	ErrSealed = errors.New("stream: log is sealed")
	// ErrVoid is returned after Void. The log is unchanged.
	ErrVoid = errors.New("stream: the log's numbering has come to an end")
	// ErrFellOff is returned by Cursor.Next when entries behind the cursor's
	// position are gone, and for a position beyond the head.
	ErrFellOff = errors.New("stream: position is not covered by the log")
)

// Limits bound what a log retains. An entry goes when any of them is passed. The
// zero value of a field means its default.
type Limits struct {
	// Events is the number of entries. Default 1,000.
	Events int
	// Bytes is the sum of the entries' data, and so also the bound of one event.
	// Default 1 MiB.
	Bytes int64
	// Age is how long an entry is kept, by elapsed time. Default 5 minutes.
	Age time.Duration
}

// Validate returns an error that names each negative field, or nil.
func (l Limits) Validate() error {
	var errs []error
	if l.Events < 0 {
		errs = append(errs, fmt.Errorf("stream: Limits.Events: %d: must not be negative", l.Events))
	}
	if l.Bytes < 0 {
		errs = append(errs, fmt.Errorf("stream: Limits.Bytes: %d: must not be negative", l.Bytes))
	}
	if l.Age < 0 {
		errs = append(errs, fmt.Errorf("stream: Limits.Age: %v: must not be negative", l.Age))
	}
	return errors.Join(errs...)
}

// WithDefaults returns the limits with each field that is zero, or wrongly
// negative, set to its default.
func (l Limits) WithDefaults() Limits {
	if l.Events <= 0 {
		l.Events = DefaultEvents
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Age <= 0 {
		l.Age = DefaultAge
	}
	return l
}

// Log is a bounded, numbered log of events. Make one with NewLog or Restore.
type Log struct {
	epoch  string
	limits Limits

	mu      sync.Mutex
	head    uint64
	entries queue
	bytes   int64 // of entries
	sealed  bool
	void    bool
	waiters []*Waiters

	version atomic.Uint64 // grows, under mu, with all that is news to a reader
}

// NewLog returns an empty log at head 0. The epoch must be new whenever numbering
// may have restarted. Limits that are zero or negative take their defaults.
func NewLog(epoch string, limits Limits) *Log {
	return &Log{epoch: epoch, limits: limits.WithDefaults()}
}

// Epoch returns the name of the numbering, as given to NewLog.
func (l *Log) Epoch() string { return l.epoch }

// Append adds an event and returns its number. It copies data. The error is
// ErrTooLarge, ErrFull, ErrSealed or ErrVoid, and then nothing was added.
func (l *Log) Append(data []byte) (seq uint64, err error) {
	if int64(len(data)) > l.limits.Bytes {
		return 0, fmt.Errorf("%w: %d bytes, at most %d", ErrTooLarge, len(data), l.limits.Bytes)
	}
	// Not nil for an empty event: nil would read as no event.
	data = append(make([]byte, 0, len(data)), data...)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.void:
		return 0, ErrVoid
	case l.sealed:
		return 0, ErrSealed
	case l.head == MaxSeq:
		return 0, ErrFull
	}
	now := time.Now()
	l.head++
	l.push(entry{data: data, at: now})
	l.expire(now)
	l.wake()
	return l.head, nil
}

// push adds the newest entry and drops the oldest beyond the bounds.
func (l *Log) push(e entry) {
	l.entries.push(e)
	l.bytes += int64(len(e.data))
	for l.entries.len() > l.limits.Events || l.bytes > l.limits.Bytes {
		l.drop()
	}
}

// wake tells the notifiers of followers that had read everything.
func (l *Log) wake() {
	l.version.Add(1)
	for _, w := range l.waiters {
		w.grow()
	}
}

func (l *Log) expire(now time.Time) {
	for l.entries.len() > 0 && now.Sub(l.entries.at(0).at) >= l.limits.Age {
		l.drop()
	}
}

func (l *Log) drop() { l.bytes -= int64(len(l.entries.pop().data)) }

// first needs l.mu and entries that are not too old.
func (l *Log) first() uint64 { return l.head - uint64(l.entries.len()) }

// Head returns the number of the newest event, 0 when there was none yet.
func (l *Log) Head() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.head
}

// First returns the lowest position that the log covers: the one before its
// oldest entry, and the head when it holds none.
func (l *Log) First() uint64 {
	first, _ := l.Bounds()
	return first
}

// Bounds returns First and Head of the same moment.
func (l *Log) Bounds() (first, head uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire(time.Now())
	return l.first(), l.head
}

// Covers reports whether all events after the position are there, so that a
// reader standing there has missed nothing that it cannot still read.
func (l *Log) Covers(epoch string, after uint64) bool {
	first, head := l.Bounds()
	return epoch == l.epoch && first <= after && after <= head && !l.isVoid()
}

func (l *Log) isVoid() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.void
}

type entry struct {
	data []byte
	at   time.Time
}

// queue is a ring of entries, oldest first. It shrinks when it is nearly empty,
// so that a log costs what it holds, not what it once held.
type queue struct {
	ring  []entry
	start int
	n     int
}

const minRing = 4

func (q *queue) len() int { return q.n }

func (q *queue) at(i int) *entry { return &q.ring[(q.start+i)%len(q.ring)] }

func (q *queue) push(e entry) {
	if q.n == len(q.ring) {
		q.resize(max(minRing, 2*len(q.ring)))
	}
	q.n++
	*q.at(q.n - 1) = e
}

func (q *queue) pop() entry {
	e := *q.at(0)
	*q.at(0) = entry{} // lets the data go
	q.start = (q.start + 1) % len(q.ring)
	q.n--
	switch {
	case q.n == 0:
		*q = queue{}
	case len(q.ring) > minRing && q.n <= len(q.ring)/4:
		q.resize(len(q.ring) / 2)
	}
	return e
}

func (q *queue) resize(size int) {
	ring := make([]entry, 0, size)
	ring = append(ring, q.ring[q.start:min(q.start+q.n, len(q.ring))]...)
	ring = append(ring, q.ring[:q.n-len(ring)]...)
	*q = queue{ring: ring[:size], n: q.n}
}
