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
func (m *memoryStore) writeState(to io.Writer) error {
	w := newStateWriter(to)
	w.put(stateRecord{Header: &headerRecord{
		Version: stateVersion,
		Run:     m.state.run,
		Saved:   time.Now(),
		Dedupe:  m.dedupeID,
		Window:  m.opts.DedupeWindow,
	}})
	for _, t := range m.streams.idleFirst() {
		log := t.log.State()
		w.put(stateRecord{Stream: &streamRecord{
			logRecord: numbering(log), Name: t.name, Idle: m.clock() - time.Duration(t.used.Load()),
		}})
		w.events(log)
	}
	sessions, users := m.sessions.idleFirst()
	for _, sess := range sessions {
		log := sess.log.State()
		r := &sessionRecord{
			logRecord: numbering(log), ID: sess.id, User: sess.user, Gen: sess.gen, Idle: m.clock() - sess.since,
		}
		if sess.user == "" {
			r.Dedupe = sess.answers.id
		}
		w.put(stateRecord{Session: r})
		w.events(log)
		if sess.user == "" {
			w.messages(sess.answers.export())
		}
	}
	for user, a := range users {
		w.put(stateRecord{User: &userRecord{Name: user}})
		w.messages(a.export())
	}
	return w.end()
}

func numbering(s stream.State) logRecord { return logRecord{Epoch: s.Epoch, Head: s.Head} }

// idleFirst returns the streams, longest idle first. None is followed any more.
func (ms *memoryStreams) idleFirst() []*memoryStream {
	ms.mu.RLock()
	defer ms.mu.RUnlock()
	all := make([]*memoryStream, 0, ms.idle.Len())
	for e := ms.idle.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*memoryStream))
	}
	return all
}

// idleFirst returns the sessions, longest idle first, and the memories of users.
// No session has a connection any more.
func (ss *sessions) idleFirst() ([]*session, map[string]*answers) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	all := make([]*session, 0, ss.idle.Len())
	for e := ss.idle.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*session))
	}
	memories := make(map[string]*answers, len(ss.users))
	for user, a := range ss.users {
		if !a.answers.isEmpty() {
			memories[user] = a.answers
		}
	}
	return all, memories
}

// export returns what is remembered, oldest answer first. A message without an
// answer, of which there should be none by now, gets one: it is not run again.
func (m *answers) export() []messageRecord {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.expire()
	now := m.clock()
	all := make([]messageRecord, 0, len(m.byID))
	for _, r := range m.settled {
		x := messageRecord{ID: r.id, Body: r.body[:], Age: now - r.at, Result: r.answer.Result}
		if refused := r.answer.Refusal; refused != nil {
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
