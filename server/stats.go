package server

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Stats are counts, all since New except the first four. [Server.Metrics] has more.
type Stats struct {
	Connections int // open, those before their resume included
	Sessions    int // known, with and without a connection
	Live        int // sessions with a connection
	Streams     int // named streams known

	Handshakes uint64            // upgrades asked for; those that were denied and Welcomes add up to it
	Denied     map[string]uint64 // of these, by reason, those that came to nothing; nil: none
	Shed       uint64            // of these, those that were answered with close code 1013 at once
	Welcomes   uint64            // sessions confirmed
	Resumed    uint64            // of these, sessions taken up again
	Superseded uint64            // connections closed for a newer one of their session
	Stalled    uint64            // connections dropped because they took nothing
	Silent     uint64            // connections dropped because they said nothing
	Malformed  uint64            // connections closed for what they sent

	Published uint64 // events appended to streams
	Events    uint64 // events written to connections
	Frames    uint64 // WebSocket messages written to connections
	Resyncs   uint64 // positions answered with resync
	Resets    uint64 // resets written
	Snapshots uint64 // snapshots written
	Computed  uint64 // runs of a snapshot function

	Messages   uint64 // messages handled by OnMessage
	Duplicates uint64 // messages answered from memory
	Refused    uint64 // nacks written
	Limited    uint64 // messages beyond their user's rate
}

// counters are the one source of Stats and of the metrics.
type counters struct {
	handshakes, shed, resumed, superseded      atomic.Uint64
	denied                                     [denials]atomic.Uint64
	welcomes                                   [outcomes]atomic.Uint64
	closed                                     [sides][otherCode + 1]atomic.Uint64
	acceptWaits                                atomic.Uint64
	stalled, silent, malformed                 atomic.Uint64
	published, events, frames, bytes           atomic.Uint64
	resyncs, resets, snapshots, computed       atomic.Uint64
	uncomputed                                 atomic.Uint64 // runs of a snapshot function that failed
	messages, duplicates, refused, limited     atomic.Uint64
	panics                                     atomic.Uint64
	forced                                     atomic.Uint64 // connections dropped by a drain
	drained                                    atomic.Bool   // a drain has ended
	recovery, batch, snapshotTime, messageTime prometheus.Histogram
}

func (s *Server) deny(d denial) { s.counters.denied[d].Add(1) }

// maxAway is the longest absence that is believed: one is what a peer says.
const maxAway = 24 * time.Hour

// welcomed counts a session that is confirmed. away is in milliseconds, as the resume
// had it, 0 for not said; since is when that arrived.
func (n *counters) welcomed(o outcome, resumed bool, away int64, since time.Time) {
	n.welcomes[o].Add(1)
	if resumed {
		n.resumed.Add(1)
	}
	if away > 0 {
		gone := time.Duration(min(away, maxAway.Milliseconds())) * time.Millisecond
		n.recovery.Observe((gone + time.Since(since)).Seconds())
	}
}

// wrote counts what was handed to a socket.
func (n *counters) wrote(o *output) {
	n.frames.Add(o.frames)
	n.events.Add(o.sent)
	n.bytes.Add(uint64(o.size())) //nolint:gosec // a length
	for _, events := range o.batches {
		n.batch.Observe(float64(events))
	}
}

// Stats returns the counts of this moment, each for itself.
func (s *Server) Stats() Stats {
	stored := s.store.Stats()
	n := &s.counters
	var denied map[string]uint64
	for d := notDenied + 1; d < denials; d++ {
		if count := n.denied[d].Load(); count > 0 {
			if denied == nil {
				denied = make(map[string]uint64)
			}
			denied[d.String()] = count
		}
	}
	var welcomes uint64
	for o := range n.welcomes {
		welcomes += n.welcomes[o].Load()
	}
	return Stats{
		Connections: s.connected(),
		Sessions:    stored.Sessions,
		Live:        s.users.count(),
		Streams:     stored.Streams,
		Handshakes:  n.handshakes.Load(),
		Denied:      denied,
		Shed:        n.shed.Load(),
		Welcomes:    welcomes,
		Resumed:     n.resumed.Load(),
		Superseded:  n.superseded.Load(),
		Stalled:     n.stalled.Load(),
		Silent:      n.silent.Load(),
		Malformed:   n.malformed.Load(),
		Published:   n.published.Load(),
		Events:      n.events.Load(),
		Frames:      n.frames.Load(),
		Resyncs:     n.resyncs.Load(),
		Resets:      n.resets.Load(),
		Snapshots:   n.snapshots.Load(),
		Computed:    n.computed.Load(),
		Messages:    n.messages.Load(),
		Duplicates:  n.duplicates.Load(),
		Refused:     n.refused.Load(),
		Limited:     n.limited.Load(),
	}
}

func (s *Server) connected() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns)
}
