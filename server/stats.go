package server

import "sync/atomic"

// Stats are counts, all since New except the first four.
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

type counters struct {
	handshakes, shed, welcomes, resumed, superseded atomic.Uint64
	denied                                          [denials]atomic.Uint64
	acceptWaits                                     atomic.Uint64
	stalled, silent, malformed                      atomic.Uint64
	published, events, frames                       atomic.Uint64
	resyncs, resets, snapshots, computed            atomic.Uint64
	messages, duplicates, refused, limited          atomic.Uint64
}

func (s *Server) deny(d denial) { s.counters.denied[d].Add(1) }

// Stats returns the counts of this moment, each for itself.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	connections := len(s.conns)
	s.mu.Unlock()
	all, live := s.sessions.count()
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
	return Stats{
		Connections: connections,
		Sessions:    all,
		Live:        live,
		Streams:     s.topics.count(),
		Handshakes:  n.handshakes.Load(),
		Denied:      denied,
		Shed:        n.shed.Load(),
		Welcomes:    n.welcomes.Load(),
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
