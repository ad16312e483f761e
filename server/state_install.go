package server

import (
	"slices"
	"time"
)

// install makes the loaded state this server's, which has none yet. What the
// options do not allow, or is too old by now, is left out, what was idle for
// longest first.
func (m *memoryStore) install(l *loadedState) {
	if m.opts.DedupeWindow <= l.header.Window {
		m.dedupeID = l.header.Dedupe
	} else {
		// Clients would rely on memory that goes back further than this one does.
		m.opts.Logger.Warn("longwire: Options.DedupeWindow has grown: the outcome of messages that had no answer yet is unknown",
			"was", l.header.Window, "is", m.opts.DedupeWindow)
		l.forgetMessages()
	}
	m.streams.install(l)
	m.sessions.install(l)
	m.wantSweep()
	sessions := m.sessions.count()
	m.opts.Logger.Info("longwire: the state of the last run was taken over",
		"streams", m.streams.count(), "sessions", sessions, "downtime", l.downtime)
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

func (ms *memoryStreams) install(l *loadedState) {
	ms.mu.Lock()
	defer ms.mu.Unlock()
	now := ms.store.clock()
	for _, x := range slices.Backward(l.streams) {
		if len(ms.all) >= ms.store.opts.Streams || x.Idle >= ms.store.opts.StreamLife-l.downtime {
			continue
		}
		st := &memoryStream{streams: ms, name: x.Name, log: x.log, listed: now - x.Idle - l.downtime}
		st.used.Store(int64(st.listed))
		st.idle = ms.idle.PushFront(st)
		ms.all[st.name] = st
	}
}

func (ss *sessions) install(l *loadedState) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for user, messages := range l.memories {
		ss.account(user).answers.restore(messages)
	}
	for _, x := range slices.Backward(l.sessions) {
		if ss.idle.Len() < ss.store.opts.IdleSessions && x.Idle < ss.store.opts.SessionLife-l.downtime {
			ss.restore(x, x.Idle+l.downtime)
		}
	}
}

// restore needs ss.mu.
func (ss *sessions) restore(x loadedSession, idle time.Duration) {
	sess := &session{store: ss.store, id: x.ID, user: x.User, log: x.log, gen: x.Gen, since: ss.store.clock() - idle}
	if x.User == "" {
		sess.answers = ss.store.newAnswers(x.Dedupe)
		sess.answers.restore(x.messages)
	} else {
		a := ss.account(x.User)
		if len(a.sessions) >= ss.store.opts.UserSessions {
			return
		}
		a.sessions[sess] = struct{}{}
		sess.answers = a.answers
	}
	ss.all[sess.id] = sess
	sess.idle = ss.idle.PushFront(sess)
}

// restore fills a memory that is empty. More than its limit are kept all the same:
// what is forgotten early would run a second time.
func (m *answers) restore(all []*record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byID = make(map[string]*record, len(all))
	for _, r := range all {
		m.byID[r.id] = r
		m.bytes += len(r.answer.Result)
	}
	m.settled = all
}
