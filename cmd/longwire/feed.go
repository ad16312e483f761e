package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/longwire/longwire/server"
)

var errDown = errors.New("the server is down")

// A feed is a stream whose last items are also its snapshot. The items belong
// to the application, as if they were in its database: they outlive a restart of
// the server, whose numbering does not.
type feed struct {
	stream string
	keep   int

	// Held while an item is published: a snapshot must not fall between the event
	// and its number.
	mu    sync.Mutex
	items []json.RawMessage
	seq   uint64         // of the last item that ws published, at that time
	at    time.Time      // that time
	ws    *server.Server // nil while it is down
}

// numberHolds is how long the number of an item is certainly true. Later the
// server may have forgotten the stream, because nobody followed it, and numbers
// anew. It is far below server.Options.StreamLife.
const numberHolds = time.Minute

// attach makes ws the server that the items are published by; nil stops that.
func (f *feed) attach(ws *server.Server) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.ws, f.at = ws, time.Time{}
}

// add publishes an item and keeps it. While the server is down it is only kept,
// and the error is errDown; after any other error it is not.
func (f *feed) add(ctx context.Context, item json.RawMessage) (uint64, error) {
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
func (f *feed) snapshot() server.Snapshot {
	f.mu.Lock()
	defer f.mu.Unlock()
	parts := make([][]byte, len(f.items))
	for i, item := range f.items {
		parts[i] = item
	}
	state := append([]byte{'['}, bytes.Join(parts, []byte{','})...)
	return server.Snapshot{State: append(state, ']'), HasSeq: time.Since(f.at) < numberHolds, Seq: f.seq}
}
