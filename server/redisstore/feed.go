package redisstore

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// feed is this node's mirror of a stream.
type feed struct {
	s    *store
	p    *partition
	name string
	refs int // guarded by store.mu

	log atomic.Pointer[stream.Log] // nil until it was read once

	mu   sync.Mutex
	head position
	// Reads are numbered. One that has begun serves all that were asked for before.
	asked, done, failed uint64
	err                 error         // of the last read, nil if it was answered
	changed             chan struct{} // closed when one of those above changes
	reading             bool
	isSubscribed        bool
	held                []event // have arrived during a read
	looked              time.Time
	reported            bool // that there are entries which cannot be read

	// Of a session's own stream.
	attached map[*session]struct{} // connections that are not superseded
	fencing  uint64                // the highest fencing number that was heard of
}

// position is the last entry of a mirror.
type position struct {
	epoch string
	seq   uint64
	tag   string
}

// event is an entry as it arrives.
type event struct {
	position
	prev string // tag of the one before
	data string
}

// mostHeld bounds the events that wait for a read to end; those beyond are read.
const mostHeld = 256

// handle is a feed for one follower.
type handle struct {
	*feed
	once sync.Once
}

func (h *handle) Close() { h.once.Do(func() { h.s.release(h.feed) }) }

// Follow implements server.Store.
func (s *store) Follow(ctx context.Context, name string) (server.Feed, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	return s.follow(ctx, s.byName(name), name)
}

func (s *store) follow(ctx context.Context, p *partition, name string) (*handle, error) {
	s.mu.Lock()
	f := s.feeds[name]
	if f == nil {
		if !isOwn(name) {
			if s.named >= s.so.Streams {
				s.mu.Unlock()
				return nil, server.ErrTooManyStreams
			}
			s.named++
		}
		f = &feed{s: s, p: p, name: name, changed: make(chan struct{})}
		s.feeds[name] = f
		p.sub.add(f)
	}
	f.refs++
	s.mu.Unlock()
	if err := f.ready(ctx); err != nil {
		s.release(f)
		return nil, err
	}
	return &handle{feed: f}, nil
}

func (s *store) release(f *feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f.refs--
	if f.refs > 0 {
		return
	}
	delete(s.feeds, f.name)
	if !isOwn(f.name) {
		s.named--
	}
	f.p.sub.remove(f)
}

// readAll makes the feeds of a partition read.
func (s *store) readAll(p *partition) {
	for _, f := range s.feedsWhere(func(f *feed) bool { return f.p == p }) {
		f.need()
	}
}

func (s *store) feedsWhere(is func(*feed) bool) (feeds []*feed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.feeds {
		if is(f) {
			feeds = append(feeds, f)
		}
	}
	return feeds
}

func (f *feed) Log() *stream.Log { return f.log.Load() }

// Sync implements server.Feed. Who comes during a read waits for the next one.
func (f *feed) Sync(ctx context.Context) error {
	ctx, cancel := f.s.bounded(ctx)
	defer cancel()
	return f.wait(ctx, f.need())
}

// ready waits for the first read, which follows the subscription.
func (f *feed) ready(ctx context.Context) error {
	if f.log.Load() != nil {
		return nil
	}
	f.mu.Lock()
	first := f.asked + 1
	isSubscribed := f.isSubscribed
	f.mu.Unlock()
	if isSubscribed {
		first = f.need()
	}
	return f.wait(ctx, first)
}

// wait returns when the read of that number is done.
func (f *feed) wait(ctx context.Context, number uint64) error {
	ctx, cancel := f.s.within(ctx)
	defer cancel()
	for {
		f.mu.Lock()
		done, failed, err, changed := f.done, f.failed, f.err, f.changed
		f.mu.Unlock()
		switch {
		case done >= number:
			return nil
		case failed >= number:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			if err == nil {
				err = f.p.sub.lastErr()
			}
			return &awayError{cause: context.Cause(ctx), last: err}
		}
	}
}

// need asks for a read and returns its number.
func (f *feed) need() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.needLocked()
}

func (f *feed) needLocked() uint64 {
	f.asked++
	if !f.reading {
		f.reading = f.s.spawn(f.run)
	}
	return f.asked
}

func (f *feed) subscribed() {
	f.mu.Lock()
	f.isSubscribed = true
	f.needLocked()
	f.mu.Unlock()
}

// run reads for as long as that is asked for. It goes on while Redis is away, and
// while somebody follows.
func (f *feed) run() {
	for {
		f.mu.Lock()
		if max(f.done, f.failed) >= f.asked {
			f.takeHeld() // and, with the lock still held, nothing more is
		}
		number := f.asked
		if max(f.done, f.failed) >= number || f.s.ctx.Err() != nil || !f.isUsed() {
			f.reading = false
			f.mu.Unlock()
			return
		}
		f.mu.Unlock()
		err := f.readOnce()
		f.mu.Lock()
		switch {
		case err == nil:
			f.done, f.err = number, nil
		case isAway(err):
			f.err = err
		default:
			f.failed, f.err = number, err
			f.held = nil
			f.s.log.Error("longwire: a stream cannot be read", "stream", f.name, "error", err)
		}
		close(f.changed)
		f.changed = make(chan struct{})
		f.mu.Unlock()
	}
}

// isUsed does not take store.mu, which others hold while they want f.mu.
func (f *feed) isUsed() bool { return f.p.sub.feed(f.p.channel(f.name)) == f }

// arrive takes a message of the stream's channel.
func (f *feed) arrive(payload string) {
	kind, rest, _ := strings.Cut(payload, " ")
	switch kind {
	case "E":
		if e, ok := parseEvent(rest); ok {
			f.mu.Lock()
			f.take(e)
			f.mu.Unlock()
			return
		}
	case "F":
		if gen, err := strconv.ParseUint(rest, 10, 64); err == nil {
			f.fence(gen)
			return
		}
	}
	f.need() // of somebody else: the stream tells
}

func parseEvent(text string) (e event, ok bool) {
	parts := strings.SplitN(text, " ", 5)
	if len(parts) != 5 {
		return event{}, false
	}
	seq, err := strconv.ParseUint(parts[1], 10, 64)
	if parts[3] == "-" {
		parts[3] = ""
	}
	return event{position{parts[0], seq, parts[2]}, parts[3], parts[4]}, err == nil
}

// take appends an event that is the next one, and asks for a read when it is not. It
// needs f.mu.
func (f *feed) take(e event) {
	switch {
	case f.reading && len(f.held) < mostHeld:
		f.held = append(f.held, e)
	case f.reading:
		f.asked++
	case e.epoch == f.head.epoch && e.seq <= f.head.seq && e.position != f.head:
		f.needLocked() // it was read before it arrived, or the stream was rolled back
	case !f.apply(e):
		f.s.holes.Add(1)
		f.needLocked()
	}
}

// takeHeld takes what arrived during a read. It needs f.mu.
func (f *feed) takeHeld() {
	held := f.held
	f.held = nil
	for _, e := range held {
		if !f.apply(e) {
			f.s.holes.Add(1)
			f.asked++
			return // the others are read as well
		}
	}
}

// apply reports whether the mirror holds the event now. It needs f.mu.
func (f *feed) apply(e event) bool {
	log := f.log.Load()
	if log == nil || e.epoch != f.head.epoch {
		return false
	}
	if e.seq < f.head.seq || e.position == f.head { // it was read
		return true
	}
	if e.seq != f.head.seq+1 || e.prev != f.head.tag || !isSound(e.data) {
		return false
	}
	if _, err := log.Append([]byte(e.data)); err != nil {
		return false // too large: the read says so
	}
	f.head, f.looked = e.position, time.Now()
	return true
}

// isSound reports whether clients will take the data.
func isSound(data string) bool { return utf8.ValidString(data) && json.Valid([]byte(data)) }
