package stream

import (
	"errors"
	"fmt"
	"time"
)

// State is what a log holds at one moment: what Restore makes it again from.
type State struct {
	Epoch   string
	Head    uint64
	Entries []Entry // oldest first; the last of them has the number Head
}

// Entry is one event of a State.
type Entry struct {
	Data []byte
	// Age is for how long it was in the log by then, by elapsed time.
	Age time.Duration
}

// Seal ends the appending: from now on Append returns ErrSealed. Readers go on. It
// can be called twice.
func (l *Log) Seal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sealed = true
}

// Void ends the log, because its numbering has started anew in another one: it lets
// its entries go, covers nothing and tells its readers, whose next Next returns
// ErrVoid. It can be called twice.
func (l *Log) Void() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.void = true
	l.entries, l.bytes = queue{}, 0
	l.wake()
}

// State returns what the log holds. Do not modify the data: the log and its
// readers share it. Seal the log first if another one is to carry its numbering
// on, or the two will give the same number to different events.
func (l *Log) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.expire(now)
	s := State{Epoch: l.epoch, Head: l.head, Entries: make([]Entry, l.entries.len())}
	for i := range s.Entries {
		e := l.entries.at(i)
		s.Entries[i] = Entry{Data: e.data, Age: now.Sub(e.at)}
	}
	return s
}

// Restore returns a log that carries the numbering of a State on. elapsed is how
// long ago that state was, negative counting as zero; entries age by it. Of the
// entries those that the limits do not allow are dropped, oldest first; the head
// stays. The log takes the data over: do not modify it any more.
//
// The error names what is wrong with the state: no epoch, a head beyond MaxSeq,
// more entries than were ever numbered, or ages that are negative or grow.
func Restore(s State, elapsed time.Duration, limits Limits) (*Log, error) {
	switch {
	case s.Epoch == "":
		return nil, errors.New("stream: restore: epoch: must not be empty")
	case s.Head > MaxSeq:
		return nil, fmt.Errorf("stream: restore: head: %d: must be at most %d", s.Head, uint64(MaxSeq))
	case uint64(len(s.Entries)) > s.Head:
		return nil, fmt.Errorf("stream: restore: %d entries: must be at most the head, %d", len(s.Entries), s.Head)
	}
	l := NewLog(s.Epoch, limits)
	l.head = s.Head
	elapsed = max(elapsed, 0)
	now := time.Now()
	for i, e := range s.Entries {
		switch {
		case e.Age < 0:
			return nil, fmt.Errorf("stream: restore: entry %d: age: %v: must not be negative", i, e.Age)
		case i > 0 && e.Age > s.Entries[i-1].Age:
			return nil, fmt.Errorf("stream: restore: entry %d: age: %v: must not be above that of the entry before", i, e.Age)
		case elapsed >= l.limits.Age-e.Age:
			continue // too old, as are all before it
		}
		if e.Data == nil {
			e.Data = []byte{}
		}
		l.push(entry{data: e.Data, at: now.Add(-e.Age - elapsed)})
	}
	return l, nil
}
