// Package storetest says what every server.Store does, as tests that each of them is
// run through.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// Run tests a store. open opens one that is empty. The times are real ones: a store
// may be asked over a network.
func Run(t *testing.T, open func(server.StoreOptions) (server.Store, error)) {
	t.Helper()
	h := harness{open: open}
	for name, test := range map[string]func(*testing.T, harness){
		"stream":  testStreams,
		"bounds":  testBounds,
		"model":   testModel,
		"session": testSessions,
		"own":     testOwnStreams,
		"message": testMessages,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// patience is how long anything may take that is to happen by itself.
const patience = time.Minute

type harness struct {
	open func(server.StoreOptions) (server.Store, error)
}

// cases runs each of a group of tests.
func (h harness) cases(t *testing.T, cases map[string]func(*testing.T, harness)) {
	t.Helper()
	for name, test := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, h)
		})
	}
}

// Options returns the defaults of a server's.
func Options() server.StoreOptions {
	return server.StoreOptions{
		Log:        stream.Limits{}.WithDefaults(),
		StreamLife: 10 * time.Minute, SessionLife: 5 * time.Minute,
		DedupeWindow: 10 * time.Minute, DedupeLimit: 10_000,
		Streams: 100_000, UserSessions: 100, IdleSessions: 100_000,
		Logger: slog.New(slog.DiscardHandler),
	}
}

// store opens a store with what change makes of the defaults. It is closed with the
// test.
func (h harness) store(t *testing.T, change ...func(*server.StoreOptions)) server.Store {
	t.Helper()
	o := Options()
	for _, f := range change {
		f(&o)
	}
	s, err := h.open(o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func follow(t *testing.T, s server.Store, name string) server.Feed {
	t.Helper()
	f, err := s.Follow(t.Context(), name)
	if err != nil {
		t.Fatalf("Follow(%s): %v", name, err)
	}
	return f
}

func publish(t *testing.T, s server.Store, name, data string) uint64 {
	t.Helper()
	seq, err := s.Publish(t.Context(), name, []byte(data))
	if err != nil {
		t.Fatalf("Publish(%s, %s): %v", name, data, err)
	}
	return seq
}

func sync(t *testing.T, f server.Feed) {
	t.Helper()
	if err := f.Sync(t.Context()); err != nil {
		t.Fatalf("Sync: %v", err)
	}
}

// Next reads n events behind a position, and waits for them.
func Next(t *testing.T, f server.Feed, after uint64, n int) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	signal := make(stream.Signal, 1)
	c := f.Log().Cursor(after, signal, nil)
	defer c.Close()
	var events []string
	for len(events) < n {
		from, data, err := c.Next(nil, 1<<20)
		if err != nil {
			t.Fatalf("Next after %d: %v", after, err)
		}
		if len(data) > 0 && from != after+uint64(len(events))+1 { //nolint:gosec // not negative
			t.Fatalf("Next after %d: from %d", after+uint64(len(events)), from) //nolint:gosec // not negative
		}
		for _, d := range data {
			events = append(events, string(d))
		}
		if len(data) > 0 {
			continue
		}
		select {
		case w := <-signal:
			w.Take(nil, 1)
		case <-ctx.Done():
			t.Fatalf("after %d: %d events have arrived, want %d", after, len(events), n)
		}
	}
	return events
}

// Eventually asks until the answer is yes.
func Eventually(t *testing.T, what string, ask func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ask() {
		if time.Now().After(deadline) {
			t.Fatalf("it takes too long until %s", what)
		}
		time.Sleep(5 * time.Millisecond) //nolint:forbidigo // asks again
	}
}

func wantErr(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// numbers are the events 1 to n as they are published by many tests.
func numbers(from, to int) (data []string) {
	for i := from; i <= to; i++ {
		data = append(data, fmt.Sprint(i))
	}
	return data
}
