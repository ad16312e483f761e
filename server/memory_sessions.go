package server

import (
	"container/list"
	"context"
	"crypto/rand"
	"sync"
	"time"

	"github.com/longwire/longwire/stream"
)

// session is what a memoryStore has of one: it fences zombie connections and names a
// private stream. It outlives its connections by SessionLife.
type session struct {
	store   *memoryStore
	id      string // 128 random bits
	user    string // "" for an anonymous one
	log     *stream.Log
	answers *answers // to messages: the user's, or its own when anonymous

	// Guarded by sessions.mu.
	gen     uint64        // fencing number of the newest connection
	current *attachment   // that connection, nil once it has ended
	idle    *list.Element // in sessions.idle, nil while there is a connection
	since   time.Duration // when it became idle
}

// attachment is a connection's part in a session, and the Feed of its own stream.
type attachment struct {
	session *session
	gen     uint64
	fenced  func(gen uint64)
}

func (a *attachment) ID() string       { return a.session.id }
func (a *attachment) Gen() uint64      { return a.gen }
func (a *attachment) Own() Feed        { return ownStream{a.session.log} }
func (a *attachment) DedupeID() string { return a.session.answers.id }

// ownStream is the Feed of a session's own stream.
type ownStream struct{ log *stream.Log }

func (o ownStream) Log() *stream.Log           { return o.log }
func (o ownStream) Sync(context.Context) error { return nil }
func (o ownStream) Close()                     {}

// account is what sessions of one user share. It lives until neither sessions
// nor remembered ids are left.
type account struct {
	sessions map[*session]struct{}
	answers  *answers
}

type sessions struct {
	store *memoryStore

	mu    sync.Mutex
	all   map[string]*session
	users map[string]*account // without the anonymous ones
	idle  list.List           // of *session, longest idle first
}

func (ss *sessions) init(store *memoryStore) {
	ss.store = store
	ss.all = make(map[string]*session)
	ss.users = make(map[string]*account)
}

// Attach implements Store. Foreign and unknown ids are treated alike. When it fails
// nothing has changed.
func (m *memoryStore) Attach(_ context.Context, want Attachment) (Session, error) {
	a := &attachment{fenced: want.Fenced, gen: want.Gen}
	old, err := m.sessions.attach(a, want.Session, want.User)
	if err != nil {
		return nil, err
	}
	if old != nil {
		old.fenced(a.gen)
	}
	return a, nil
}

// attach gives a its session and returns the attachment that was superseded, if any.
func (ss *sessions) attach(a *attachment, id, user string) (old *attachment, err error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sess := ss.find(id, user)
	if sess == nil {
		sess = ss.create(user)
	}
	if a.gen == 0 {
		a.gen = sess.gen + 1
	}
	if a.gen <= sess.gen {
		return nil, &NotNewestError{Gen: sess.gen}
	}
	if sess.idle != nil {
		ss.idle.Remove(sess.idle)
		sess.idle = nil
	}
	a.session = sess
	old = sess.current
	sess.gen, sess.current = a.gen, a
	return old, nil
}

// find returns the session named id if it is there and belongs to the user. It
// needs ss.mu.
func (ss *sessions) find(id, user string) *session {
	if sess := ss.all[id]; sess != nil && sess.user == user {
		return sess
	}
	return nil
}

// Knows implements Store.
func (m *memoryStore) Knows(_ context.Context, id, user string) (bool, error) {
	m.sessions.mu.Lock()
	defer m.sessions.mu.Unlock()
	return m.sessions.find(id, user) != nil, nil
}

// create needs ss.mu.
func (ss *sessions) create(user string) *session {
	sess := &session{store: ss.store, id: rand.Text(), user: user, log: ss.store.newLog()}
	ss.all[sess.id] = sess
	if user == "" {
		sess.answers = ss.store.newAnswers(newEpoch())
		return sess
	}
	a := ss.account(user)
	sess.answers = a.answers
	if len(a.sessions) >= ss.store.opts.UserSessions {
		ss.dropOldest(a)
	}
	a.sessions[sess] = struct{}{}
	return sess
}

// account returns what the user's sessions share. It needs ss.mu.
func (ss *sessions) account(user string) *account {
	a := ss.users[user]
	if a == nil {
		a = &account{sessions: make(map[*session]struct{}), answers: ss.store.newAnswers(ss.store.dedupeID)}
		ss.users[user] = a
	}
	return a
}

// dropOldest forgets the account's session that was idle for longest, if one is.
func (ss *sessions) dropOldest(a *account) {
	var oldest *session
	for sess := range a.sessions {
		if sess.idle != nil && (oldest == nil || sess.since < oldest.since) {
			oldest = sess
		}
	}
	if oldest != nil {
		ss.drop(oldest)
	}
}

// drop needs ss.mu and an idle session.
func (ss *sessions) drop(sess *session) {
	ss.idle.Remove(sess.idle)
	sess.idle = nil
	delete(ss.all, sess.id)
	if a := ss.users[sess.user]; a != nil {
		delete(a.sessions, sess)
	}
}

// Detach implements Session. Of a superseded connection it changes nothing.
func (a *attachment) Detach() {
	sess, ss := a.session, &a.session.store.sessions
	ss.mu.Lock()
	if sess.current == a {
		sess.current = nil
		sess.since = ss.store.clock()
		sess.idle = ss.idle.PushBack(sess)
		if ss.idle.Len() > ss.store.opts.IdleSessions {
			ss.drop(ss.idle.Front().Value.(*session))
		}
	}
	ss.mu.Unlock()
	ss.store.wantSweep()
}

// isNewest reports whether no connection has taken the session over since.
func (ss *sessions) isNewest(a *attachment) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return a.session.gen == a.gen
}

// forget drops the sessions and accounts whose life is over and reports whether
// there is still something to wait for.
func (ss *sessions) forget() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now := ss.store.clock()
	for e := ss.idle.Front(); e != nil; e = ss.idle.Front() {
		sess := e.Value.(*session)
		if now-sess.since < ss.store.opts.SessionLife {
			break
		}
		ss.drop(sess)
	}
	waiting := ss.idle.Len() > 0
	for user, a := range ss.users {
		if len(a.sessions) > 0 {
			continue
		}
		if a.answers.isEmpty() {
			delete(ss.users, user)
		} else {
			waiting = true
		}
	}
	return waiting
}

// log returns the log of a session's own stream, or nil.
func (ss *sessions) log(id string) *stream.Log {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sess := ss.all[id]; sess != nil {
		return sess.log
	}
	return nil
}

// ofUser returns the logs of the own streams of the user's sessions.
func (ss *sessions) ofUser(user string) []*stream.Log {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	a := ss.users[user]
	if a == nil {
		return nil
	}
	logs := make([]*stream.Log, 0, len(a.sessions))
	for sess := range a.sessions {
		logs = append(logs, sess.log)
	}
	return logs
}

func (ss *sessions) count() int {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.all)
}

func (ss *sessions) seal() {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, sess := range ss.all {
		sess.log.Seal()
	}
}
