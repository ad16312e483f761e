package main

import (
	"context"
	"encoding/json"

	"github.com/longwire/longwire/server"
)

// takeOver is after how many seconds without a sample another node goes on.
const takeOver = 3

// A shift decides which one of several nodes publishes the samples of the host, by
// what is in the stream alone: it is the author of the last one. When there are no
// more of them each of the others may go on; if two do at once, the one whose sample
// came first sees that it is not the last and leaves it at that.
type shift struct {
	node  string // names this one in the samples
	feed  *feed
	store server.Store
	watch server.Feed // of store; nil before the first look

	epoch string // of the stream at the last look
	head  uint64
	quiet int // looks at which it had not grown
	ours  bool
}

// mine reports whether this node is to publish now. It is asked once a second.
func (s *shift) mine(ctx context.Context) bool {
	_, store := s.feed.shared()
	if store != s.store {
		s.end()
		s.store = store
	}
	if store == nil {
		return true
	}
	if s.watch == nil {
		watch, err := store.Follow(ctx, s.feed.stream)
		if err != nil {
			return false
		}
		s.watch = watch
	}
	events, head, err := tailOf(s.watch, 1)
	epoch := s.watch.Log().Epoch()
	if err != nil || head == s.head && epoch == s.epoch {
		s.quiet++
		return s.ours || s.quiet >= takeOver
	}
	s.epoch, s.head, s.quiet = epoch, head, 0
	var last hostSample
	s.ours = len(events) > 0 && json.Unmarshal(events[0], &last) == nil && last.Node == s.node
	return s.ours
}

// end lets go of the stream.
func (s *shift) end() {
	if s.watch != nil {
		s.watch.Close()
		s.watch = nil
	}
}
