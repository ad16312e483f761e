package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

var errDown = errors.New("the server is down")

// A feed is a stream whose last items are also its snapshot. The items belong
// to the application, as if they were in its database: they outlive a restart of
// the server, whose numbering does not. With a store that several nodes share it
// is the stream in there that has them, for all nodes.
type feed struct {
	stream string
	keep   int

	// Held while an item is published, without a shared store: a snapshot must not
	// fall between the event and its number.
	mu    sync.Mutex
	items []json.RawMessage
	seq   uint64         // of the last item that ws published, at that time
	at    time.Time      // that time
	ws    *server.Server // nil while it is down
	store server.Store   // nil unless it is shared
}

// numberHolds is how long the number of an item is certainly true. Later the
// server may have forgotten the stream, because nobody followed it, and numbers
// anew. It is far below server.Options.StreamLife.
const numberHolds = time.Minute

// attach makes ws the server that the items are published by, and store where they
// are if it is shared; nil stops that.
func (f *feed) attach(ws *server.Server, store server.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ws, f.store, f.at = ws, store, time.Time{}
}

// shared returns the server and its store, if that is shared.
func (f *feed) shared() (*server.Server, server.Store) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.ws, f.store
}

// add publishes an item and keeps it. While the server is down it is only kept,
// and the error is errDown; after any other error it is not.
func (f *feed) add(ctx context.Context, item json.RawMessage) (uint64, error) {
	if ws, store := f.shared(); store != nil {
		return ws.Publish(ctx, f.stream, item)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	err := errDown
	if f.ws != nil {
		var seq uint64
		if seq, err = f.ws.Publish(ctx, f.stream, item); err != nil {
			return 0, err
		}
		f.seq, f.at = seq, time.Now()
	}
	if f.items = append(f.items, item); len(f.items) > f.keep {
		f.items = f.items[1:]
	}
	return f.seq, err
}

// snapshot returns the items as an array, the oldest first. Without a number it is
// the state at the head: nothing has been published for long.
func (f *feed) snapshot(ctx context.Context) (server.Snapshot, error) {
	if _, store := f.shared(); store != nil {
		items, seq, err := tail(ctx, store, f.stream, f.keep)
		return server.Snapshot{State: array(items), HasSeq: true, Seq: seq}, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	items := make([][]byte, len(f.items))
	for i, item := range f.items {
		items[i] = item
	}
	return server.Snapshot{State: array(items), HasSeq: time.Since(f.at) < numberHolds, Seq: f.seq}, nil
}

func array(items [][]byte) json.RawMessage {
	return append(append([]byte{'['}, bytes.Join(items, []byte{','})...), ']')
}

// tail returns the last n events of a stream, or as many as there are, and the number
// of the last one.
func tail(ctx context.Context, store server.Store, name string, n int) (events [][]byte, seq uint64, err error) {
	f, err := store.Follow(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	return tailOf(f, n)
}

// tailOf is tail for a stream that is followed already.
func tailOf(f server.Feed, n int) (events [][]byte, seq uint64, err error) {
	for {
		log := f.Log()
		first, head := log.Bounds()
		from, events, err := log.Cursor(max(first, head-min(head, uint64(n))), nil, nil).Next(nil, math.MaxInt) //nolint:gosec // a few
		if errors.Is(err, stream.ErrFellOff) || errors.Is(err, stream.ErrVoid) {
			continue // it has moved on meanwhile
		}
		return events[max(0, len(events)-n):], from + uint64(len(events)) - 1, err
	}
}
