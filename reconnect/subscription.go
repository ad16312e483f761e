//go:build !js

package reconnect

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/longwire/longwire/wire"
)

// Position is a place in a stream: that of the last event that was handled.
type Position struct {
	Seq   uint64
	Epoch string
}

// EventInfo is one event of a stream.
type EventInfo struct {
	Stream string
	Seq    uint64
	Data   json.RawMessage
}

// SnapshotInfo is the state of a stream at a position. It replaces everything
// that the application knew of the stream.
type SnapshotInfo struct {
	Stream   string
	Position Position
	State    json.RawMessage
}

// Recovery says how a stream goes on after something may have been missed: the one
// answer of every reconnect. It also comes while connected, when the client falls
// behind what the server keeps.
type Recovery struct {
	Stream  string
	Outcome RecoveryOutcome
	// Missed is the number of events that follow now: not 0 for Replayed.
	Missed uint64
	// Position is where the stream goes on after GapWithoutSnapshot.
	Position Position
	Reason   string // of a gap
}

// RecoveryOutcome is how a stream goes on.
type RecoveryOutcome uint8

// Outcomes of a recovery.
const (
	// NothingMissed: the stream goes on where it stood.
	NothingMissed RecoveryOutcome = iota + 1
	// Replayed: what was missed follows.
	Replayed
	// GapWithSnapshot: what was missed is gone; the next call is Snapshot.
	GapWithSnapshot
	// GapWithoutSnapshot: what was missed is gone; reload by your own means.
	GapWithoutSnapshot
)

func (o RecoveryOutcome) String() string {
	switch o {
	case NothingMissed:
		return "nothing missed"
	case Replayed:
		return "replayed"
	case GapWithSnapshot:
		return "gap with snapshot"
	case GapWithoutSnapshot:
		return "gap without snapshot"
	}
	return "invalid"
}

// Handler is called for one stream, one call at a time, in order. Fields may be
// nil. A position counts as handled when Event or Snapshot has returned.
type Handler struct {
	Event    func(EventInfo)
	Snapshot func(SnapshotInfo)
	// Recovered is called before anything else after a reconnect.
	Recovered func(Recovery)
	// Refused is told why the server does not let the client follow the stream.
	// It is asked for again with the next connection.
	Refused func(error)
}

// Subscription is a stream that is being followed.
type Subscription struct {
	c       *Client
	stream  string
	h       Handler
	pos     Position // of the last event handled; guarded by c.mu
	hasPos  bool
	epoch   string // of the events being delivered; only the delivering goroutine
	lost    bool   // a resync was told, and what follows is not here yet; as epoch
	removed bool   // guarded by c.mu
}

// begun is a Subscribe with the subscription that it is for: what the machine
// delivers before is not for that one but for one that was unsubscribed.
type begun struct {
	Subscribe
	s *Subscription
}

// ErrSubscribed is returned by Subscribe for a stream that is followed already.
var ErrSubscribed = errors.New("reconnect: already subscribed to this stream")

// Subscribe follows a stream; the empty name is the session's own. With a
// position the events after it are replayed, or a gap is said; with nil the
// stream starts with a snapshot or, where the server has none, from now.
func (c *Client) Subscribe(stream string, from *Position, h Handler) (*Subscription, error) {
	if stream != "" && !wire.ValidStream(stream) {
		return nil, fmt.Errorf("reconnect: stream name %q must be 1 to 128 bytes of [A-Za-z0-9._:/-]", stream)
	}
	s := &Subscription{c: c, stream: stream, h: h}
	want := wire.Want{}
	if from != nil {
		if from.Seq > wire.MaxSeq || len(from.Epoch) > wire.MaxEpoch {
			return nil, fmt.Errorf("reconnect: position of stream %q: out of range", stream)
		}
		want = wire.Want{Has: true, After: from.Seq, Epoch: from.Epoch}
		s.pos, s.hasPos, s.epoch = *from, true, from.Epoch
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.subs[stream] != nil {
		return nil, fmt.Errorf("%w: %q", ErrSubscribed, stream)
	}
	c.subs[stream] = s
	c.postLocked(begun{Subscribe{Stream: stream, From: want}, s})
	return s, nil
}

// Unsubscribe stops following. A handler that is running goes on to its end; no
// further one is called.
func (s *Subscription) Unsubscribe() {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	if s.removed {
		return
	}
	s.removed = true
	delete(s.c.subs, s.stream)
	s.c.postLocked(Unsubscribe{Stream: s.stream})
}

// Position returns the position of the last event whose handler has returned;
// false before the first one, and while a snapshot is awaited.
func (s *Subscription) Position() (Position, bool) {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return s.pos, s.hasPos
}

// moved notes that the application has handled everything up to seq.
func (s *Subscription) moved(seq uint64) {
	s.c.mu.Lock()
	s.pos, s.hasPos = Position{seq, s.epoch}, true
	s.c.mu.Unlock()
}

func (s *Subscription) live() bool {
	s.c.mu.Lock()
	defer s.c.mu.Unlock()
	return !s.removed
}

// deliver calls the handlers for one frame. It runs in the delivering goroutine.
func (s *Subscription) deliver(f wire.Frame, skip int) {
	if !s.live() {
		return
	}
	switch f := f.(type) {
	case wire.Event:
		s.event(f.Seq, f.Data)
	case wire.Events:
		for i := skip; i < len(f.Data); i++ {
			s.event(f.From+uint64(i), f.Data[i])
		}
	case wire.Snapshot:
		if s.lost {
			s.gap(wire.Reset{Snapshot: true, Reason: reasonLost})
		}
		s.epoch = f.Epoch
		if s.h.Snapshot != nil {
			s.h.Snapshot(SnapshotInfo{s.stream, Position{f.Seq, f.Epoch}, json.RawMessage(f.State)})
		}
		s.moved(f.Seq)
	case wire.Reset:
		s.gap(f)
	case wire.Subbed:
		s.answer(f.Answer)
	}
}

func (s *Subscription) event(seq uint64, data wire.Raw) {
	if !s.live() {
		return // unsubscribed by the handler of an event before this one
	}
	if s.h.Event != nil {
		s.h.Event(EventInfo{s.stream, seq, json.RawMessage(data)})
	}
	s.moved(seq)
}

const reasonLost = "the server no longer has what was missed"

// gap says that there is one, once, when it is known what follows.
func (s *Subscription) gap(f wire.Reset) {
	s.lost = false
	r := Recovery{Stream: s.stream, Outcome: GapWithSnapshot, Reason: f.Reason}
	if !f.Snapshot {
		r.Outcome, r.Position = GapWithoutSnapshot, Position{f.Seq, f.Epoch}
		s.epoch = f.Epoch
	}
	s.recovered(r)
	if f.Snapshot {
		s.c.mu.Lock()
		s.hasPos = false
		s.c.mu.Unlock()
	} else {
		s.moved(f.Seq)
	}
}

// answer takes what the server says of the stream, in a welcome or a subbed.
func (s *Subscription) answer(a wire.Answer) {
	s.c.mu.Lock()
	pos, has := s.pos, s.hasPos
	if a.Resync {
		s.hasPos = false
		s.lost = s.lost || has
	}
	s.c.mu.Unlock()
	switch {
	case a.Error == wire.ErrBusy:
	case a.Error != "":
		if s.h.Refused != nil {
			s.h.Refused(fmt.Errorf("reconnect: stream %q: %s", s.stream, a.Error))
		}
	case a.Resync:
	case !has:
		s.epoch = a.Epoch
		s.moved(a.Seq)
	case a.Epoch == pos.Epoch && a.Seq >= pos.Seq:
		r := Recovery{Stream: s.stream, Outcome: NothingMissed, Missed: a.Seq - pos.Seq}
		if r.Missed > 0 {
			r.Outcome = Replayed
		}
		s.recovered(r)
	}
}

func (s *Subscription) recovered(r Recovery) {
	if s.h.Recovered != nil {
		s.h.Recovered(r)
	}
}
