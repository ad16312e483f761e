package server

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/wire"
)

// snapshots runs the application's snapshot functions: once for all who wait for
// the same stream, and a bounded number at a time.
type snapshots struct {
	s       *Server
	mu      sync.Mutex
	queue   []*flight
	running int
}

// flight is one run of a snapshot function, under way or done.
type flight struct {
	topic    *topic
	identity Identity // of a session's own stream
	waiters  map[*conn]struct{}
	done     chan struct{}
	result   atomic.Pointer[snapshotResult] // nil until done
}

// snapshotResult is either a frame, encoded once for all, or a reason why there is
// none: empty when the stream just has no snapshots.
type snapshotResult struct {
	frame  []byte
	epoch  string
	seq    uint64
	reason string
}

const failedSnapshot = "the snapshot failed"

// learnTime is how long an answer waits to learn whether a stream, which it has
// not met before, has a snapshot at all.
const learnTime = time.Second

func (sn *snapshots) hasFunction(t *topic) bool {
	if t.isOwn() {
		return sn.s.opts.SessionSnapshot != nil
	}
	return sn.s.opts.Snapshot != nil
}

// mayHave reports whether the stream has snapshots, as far as is known.
func (sn *snapshots) mayHave(t *topic) bool {
	return sn.hasFunction(t) && t.state.Load() != snapshotNone
}

// join returns the run of the stream's snapshot function that is under way, or
// starts one. c is woken when it is done.
func (sn *snapshots) join(t *topic, c *conn) *flight {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	f := t.flight
	if f == nil {
		f = &flight{topic: t, identity: c.identity, waiters: make(map[*conn]struct{}), done: make(chan struct{})}
		t.flight = f
		sn.queue = append(sn.queue, f)
		if sn.running < sn.s.opts.Snapshots {
			sn.running++
			sn.s.wg.Go(sn.work)
		}
	}
	f.waiters[c] = struct{}{}
	return f
}

func (sn *snapshots) work() {
	for {
		sn.mu.Lock()
		if len(sn.queue) == 0 {
			sn.queue = nil
			sn.running--
			sn.mu.Unlock()
			return
		}
		f := sn.queue[0]
		sn.queue = sn.queue[1:]
		sn.mu.Unlock()
		sn.run(f)
	}
}

// run runs the function. Who waits is released at the timeout even when the
// function is not.
func (sn *snapshots) run(f *flight) {
	ctx, cancel := context.WithTimeout(sn.s.ctx, sn.s.opts.SnapshotTimeout)
	defer cancel()
	released := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(released)
		sn.land(f, snapshotResult{reason: "the snapshot took too long"})
	})
	result := sn.compute(ctx, f)
	if !stop() {
		<-released
	}
	sn.land(f, result)
}

// land makes the result known, once.
func (sn *snapshots) land(f *flight, r snapshotResult) {
	sn.mu.Lock()
	defer sn.mu.Unlock()
	if !f.result.CompareAndSwap(nil, &r) {
		return
	}
	if r.reason != "" {
		sn.s.counters.uncomputed.Add(1)
	}
	f.topic.flight = nil
	close(f.done)
	for c := range f.waiters {
		c.wake()
	}
	f.waiters = nil
}

func (sn *snapshots) compute(ctx context.Context, f *flight) snapshotResult {
	s, t := sn.s, f.topic
	s.counters.computed.Add(1)
	defer observe(s.counters.snapshotTime, time.Now())
	log := t.log()
	before := log.Head()
	var snap Snapshot
	err := s.guard("Snapshot", func() (err error) {
		if t.isOwn() {
			snap, err = s.opts.SessionSnapshot(ctx, f.identity)
		} else {
			snap, err = s.opts.Snapshot(ctx, t.name)
		}
		return err
	})
	if errors.Is(err, ErrNoSnapshot) {
		t.state.Store(snapshotNone)
		return snapshotResult{}
	}
	t.state.Store(snapshotExists)
	if snap.HasSeq && snap.Seq > log.Head() && err == nil {
		err = t.feed.Sync(ctx) // what was published elsewhere may not have arrived yet
	}
	switch {
	case !snap.HasSeq:
		snap.Seq = before
	case snap.Seq > log.Head():
		snap.Seq = 0 // of an older numbering, so from before all events of this one
	}
	var frame []byte
	if err == nil {
		frame, err = encodeSnapshot(t.name, log.Epoch(), snap)
	}
	if err == nil {
		return snapshotResult{frame: frame, epoch: log.Epoch(), seq: snap.Seq}
	}
	s.log.Error("longwire: no snapshot", "stream", t.name, "error", err)
	reason := failedSnapshot
	var refusal *Refusal
	if errors.As(err, &refusal) && refusal.Reason != "" {
		reason = clip(refusal.Reason, maxReasonText)
	}
	return snapshotResult{reason: reason}
}

// encodeSnapshot checks a snapshot of the application's, and encodes it.
func encodeSnapshot(name, epoch string, snap Snapshot) ([]byte, error) {
	if err := checkPayload(snap.State); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	frame := wire.Snapshot{
		HasSeq: true, Seq: snap.Seq, Epoch: epoch, Stream: name, State: wire.Raw(snap.State),
	}.Append(nil)
	if len(frame) > wire.MaxServerFrame {
		return nil, &Refusal{Reason: fmt.Sprintf("the snapshot is too large: %d bytes, at most %d", len(frame), wire.MaxServerFrame)}
	}
	return frame, nil
}

// learn runs the snapshot functions of those streams of which nothing is known
// yet and whose answer depends on it, and waits for them a little.
func (c *conn) learn(topics []*topic) map[*topic]*flight {
	sn := &c.s.snapshots
	var flights map[*topic]*flight
	for _, t := range topics {
		if sn.hasFunction(t) && t.state.Load() == snapshotUnknown {
			if flights == nil {
				flights = make(map[*topic]*flight)
			}
			flights[t] = sn.join(t, c)
		}
	}
	if flights == nil {
		return nil
	}
	timer := time.NewTimer(learnTime)
	defer timer.Stop()
	for _, f := range flights {
		select {
		case <-f.done:
		case <-timer.C:
			return flights
		case <-c.stop:
			return flights
		}
	}
	return flights
}
