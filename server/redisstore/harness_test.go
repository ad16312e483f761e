package redisstore_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/stream"
)

// node opens a store that shares the prefix "t" with the other nodes of a test. It is
// closed with the test.
func node(t *testing.T, url string, change ...func(*redisstore.Options, *server.StoreOptions)) server.Store {
	t.Helper()
	o, so := redisstore.Options{URL: url, Prefix: "t"}, storetest.Options()
	for _, f := range change {
		f(&o, &so)
	}
	s, err := redisstore.Open(o)(so)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// keep is a store's log of so many events.
func keep(events int) func(*redisstore.Options, *server.StoreOptions) {
	return func(_ *redisstore.Options, so *server.StoreOptions) { so.Log.Events = events }
}

// impatient waits two seconds for Redis, and a tenth of that for one answer.
func impatient(o *redisstore.Options, _ *server.StoreOptions) {
	o.URL += "?read_timeout=200ms"
	o.Timeout = 2 * time.Second
}

func publish(t *testing.T, s server.Store, name string, from, to int) {
	t.Helper()
	for i := from; i <= to; i++ {
		if _, err := s.Publish(t.Context(), name, fmt.Append(nil, i)); err != nil {
			t.Fatalf("Publish %d: %v", i, err)
		}
	}
}

func numbers(from, to int) (events []string) {
	for i := from; i <= to; i++ {
		events = append(events, fmt.Sprint(i))
	}
	return events
}

const gap = "gap"

// follower reads a stream as a client's connection does: what follows its position,
// and after a gap all that is there.
type follower struct {
	feed server.Feed

	mu     sync.Mutex
	events []string // and gaps
}

// follow follows the stream "s" from its head on, until the test ends.
func follow(t *testing.T, s server.Store) *follower {
	t.Helper()
	feed, err := s.Follow(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	f := &follower{feed: feed}
	f.read(t)
	t.Cleanup(feed.Close)
	return f
}

// read goes on in the background until the test ends.
func (f *follower) read(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	log := f.feed.Log()
	position := log.Head()
	var wg sync.WaitGroup
	wg.Go(func() { f.run(ctx, log, position) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

func (f *follower) run(ctx context.Context, log *stream.Log, position uint64) {
	signal := make(stream.Signal, 8)
	c := log.Cursor(position, signal, nil)
	defer func() { c.Close() }()
	for {
		_, data, err := c.Next(nil, 1<<20)
		if err != nil {
			position = c.After()
			epoch := log.Epoch()
			c.Close()
			log = f.feed.Log()
			if !log.Covers(epoch, position) {
				f.add(gap)
				position = log.First()
			}
			c = log.Cursor(position, signal, nil)
			continue
		}
		for _, d := range data {
			f.add(string(d))
		}
		if len(data) > 0 {
			continue
		}
		select {
		case w := <-signal:
			w.Take(nil, 1)
		case <-ctx.Done():
			return
		}
	}
}

func (f *follower) add(event string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.events = append(f.events, event)
}

func (f *follower) got() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.events)
}

// want waits for exactly these events.
func (f *follower) want(t *testing.T, want ...string) {
	t.Helper()
	f.until(t, func(got []string) bool { return len(got) >= len(want) })
	if got := f.got(); !slices.Equal(got, want) {
		t.Fatalf("got  %q\nwant %q", got, want)
	}
}

// until waits until the events are as is says.
func (f *follower) until(t *testing.T, is func([]string) bool) {
	t.Helper()
	defer func() {
		if t.Failed() {
			t.Logf("got %q", f.got())
		}
	}()
	soon(t, "the events are there", func() bool { return is(f.got()) })
}

// soon waits for less long than it takes until a quiet stream is compared, or what is
// known of a Cluster is loaded again, which would heal what the test is about.
func soon(t *testing.T, what string, ask func() bool) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for !ask() {
		if time.Now().After(deadline) {
			t.Fatalf("it takes too long until %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func attach(t *testing.T, s server.Store, session, user string, gen uint64, fenced func(uint64)) server.Session {
	t.Helper()
	c, err := s.Attach(t.Context(), server.Attachment{Session: session, User: user, Gen: gen, Fenced: fenced})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Detach)
	return c
}

func nobody(uint64) {}

// kill ends connections of a kind.
func kill(r *redistest.Server, kind string) {
	r.Do("CLIENT", "KILL", "TYPE", kind, "SKIPME", "yes")
}
