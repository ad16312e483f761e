package server

import (
	"slices"
	"sync/atomic"
	"time"
)

// install makes the loaded state this server's, which has none yet. What the
// options do not allow, or is too old by now, is left out, what was idle for
// longest first.
func (s *Server) install(l *loadedState) {
	if s.opts.DedupeWindow <= l.header.Window {
		s.dedupeID = l.header.Dedupe
	} else {
		// Clients would rely on memory that goes back further than this one does.
		s.log.Warn("longwire: Options.DedupeWindow has grown: the outcome of messages that had no answer yet is unknown",
			"was", l.header.Window, "is", s.opts.DedupeWindow)
		l.forgetMessages()
	}
	s.topics.install(l)
	s.sessions.install(l)
	s.wantSweep()
	sessions, _ := s.sessions.count()
	s.log.Info("longwire: the state of the last run was taken over",
		"streams", s.topics.count(), "sessions", sessions, "downtime", l.downtime)
}

// forgetMessages empties the memories, under new ids.
func (l *loadedState) forgetMessages() {
	l.memories = nil
	for i := range l.sessions {
		sess := &l.sessions[i]
		sess.messages = nil
		if sess.Dedupe != "" {
			sess.Dedupe = newEpoch()
		}
	}
}

func (ts *topics) install(l *loadedState) {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	now := ts.s.clock()
	for _, x := range slices.Backward(l.streams) {
		if len(ts.all) >= ts.s.opts.Streams || x.Idle >= ts.s.opts.StreamLife-l.downtime {
			continue
		}
		t := &topic{name: x.Name, log: x.log, state: new(atomic.Int32), listed: now - x.Idle - l.downtime}
		t.used.Store(int64(t.listed))
		t.idle = ts.idle.PushFront(t)
		ts.all[t.name] = t
	}
}

func (ss *sessions) install(l *loadedState) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for user, messages := range l.memories {
		ss.account(user).memory.restore(messages)
	}
	for _, x := range slices.Backward(l.sessions) {
		if ss.idle.Len() < ss.s.opts.IdleSessions && x.Idle < ss.s.opts.SessionLife-l.downtime {
			ss.restore(x, x.Idle+l.downtime)
		}
	}
}

// restore needs ss.mu.
func (ss *sessions) restore(x loadedSession, idle time.Duration) {
	sess := &session{id: x.ID, user: x.User, gen: x.Gen, since: ss.s.clock() - idle}
	sess.own = &topic{session: sess, log: x.log, state: &ss.state}
	if x.User == "" {
		sess.memory = newMemory(x.Dedupe, ss.s)
		sess.memory.restore(x.messages)
	} else {
		a := ss.account(x.User)
		if len(a.sessions) >= ss.s.opts.UserSessions {
			return
		}
		a.sessions[sess] = struct{}{}
		sess.memory = a.memory
	}
	ss.all[sess.id] = sess
	sess.idle = ss.idle.PushFront(sess)
}

// restore fills a memory that is empty. More than its limit are kept all the same:
// what is forgotten early would run a second time.
func (m *memory) restore(all []*record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID = make(map[string]*record, len(all))
	for _, r := range all {
		m.byID[r.id] = r
		m.bytes += len(r.answer.result)
	}
	m.settled = all
}
