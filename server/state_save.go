package server

import (
	"io"
	"time"

	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// writeState writes everything that outlives a planned restart. The server is
// closed and sealed, so nothing changes any more, except that a sweep which was
// under way may forget something.
//
// What is known of snapshots is left out: the version of the application that
// comes next may have others.
func (s *Server) writeState(to io.Writer) error {
	w := newStateWriter(to)
	w.put(stateRecord{Header: &headerRecord{
		Version: stateVersion,
		Run:     s.state.run,
		Saved:   time.Now(),
		Dedupe:  s.dedupeID,
		Window:  s.opts.DedupeWindow,
	}})
	for _, t := range s.topics.idleFirst() {
		log := t.log.State()
		w.put(stateRecord{Stream: &streamRecord{
			logRecord: numbering(log), Name: t.name, Idle: s.clock() - time.Duration(t.used.Load()),
		}})
		w.events(log)
	}
	sessions, memories := s.sessions.idleFirst()
	for _, sess := range sessions {
		log := sess.own.log.State()
		r := &sessionRecord{
			logRecord: numbering(log), ID: sess.id, User: sess.user, Gen: sess.gen, Idle: s.clock() - sess.since,
		}
		if sess.user == "" {
			r.Dedupe = sess.memory.id
		}
		w.put(stateRecord{Session: r})
		w.events(log)
		if sess.user == "" {
			w.messages(sess.memory.export())
		}
	}
	for user, m := range memories {
		w.put(stateRecord{User: &userRecord{Name: user}})
		w.messages(m.export())
	}
	return w.end()
}

func numbering(s stream.State) logRecord { return logRecord{Epoch: s.Epoch, Head: s.Head} }

// idleFirst returns the streams, longest idle first. None is followed any more.
func (ts *topics) idleFirst() []*topic {
	ts.mu.RLock()
	defer ts.mu.RUnlock()
	all := make([]*topic, 0, ts.idle.Len())
	for e := ts.idle.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*topic))
	}
	return all
}

// idleFirst returns the sessions, longest idle first, and the memories of users.
// No session has a connection any more.
func (ss *sessions) idleFirst() ([]*session, map[string]*memory) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	all := make([]*session, 0, ss.idle.Len())
	for e := ss.idle.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*session))
	}
	memories := make(map[string]*memory, len(ss.users))
	for user, a := range ss.users {
		if !a.memory.isEmpty() {
			memories[user] = a.memory
		}
	}
	return all, memories
}

// export returns what is remembered, oldest answer first. A message without an
// answer, of which there should be none by now, gets one: it is not run again.
func (m *memory) export() []messageRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	now := m.clock()
	all := make([]messageRecord, 0, len(m.byID))
	for _, r := range m.settled {
		x := messageRecord{ID: r.id, Body: r.body[:], Age: now - r.at, Result: r.answer.result}
		if refused := r.answer.refusal; refused != nil {
			x.Refused = &refusal{Code: refused.Code, Reason: refused.Reason}
		}
		all = append(all, x)
	}
	for _, r := range m.byID {
		select {
		case <-r.done:
		default:
			all = append(all, messageRecord{
				ID: r.id, Body: r.body[:],
				Refused: &refusal{Code: wire.NackUnknown, Reason: "the server was restarted while it ran"},
			})
		}
	}
	return all
}
