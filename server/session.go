package server

import (
	"container/list"
	"crypto/rand"
	"sync"
	"sync/atomic"
	"time"
)

// session fences zombie connections and names a private stream. It outlives its
// connections by SessionLife.
type session struct {
	id     string // 128 random bits
	user   string // "" for an anonymous one
	own    *topic
	memory *memory // of message ids: the user's, or its own when anonymous

	// Guarded by sessions.mu.
	gen     uint64        // fencing number of the newest connection
	current *conn         // that connection, nil once it has ended
	idle    *list.Element // in sessions.idle, nil while there is a connection
	since   time.Duration // when it became idle
}

// account is what sessions of one user share. It lives until neither sessions
// nor remembered ids are left.
type account struct {
	sessions map[*session]struct{}
	memory   *memory
}

type sessions struct {
	s     *Server
	state atomic.Int32 // a snapshotState, of all sessions' own streams

	mu    sync.Mutex
	all   map[string]*session
	users map[string]*account // without the anonymous ones
	idle  list.List           // of *session, longest idle first
}

func (ss *sessions) init(s *Server) {
	ss.s = s
	ss.all = make(map[string]*session)
	ss.users = make(map[string]*account)
}

// attach gives the session to the connection c: the one named id when it is there
// and belongs to the user, else a new one. Foreign and unknown ids are answered
// alike. old is the connection that was superseded, if any. A gen of 0 is the next
// one. When it is denied nothing has changed: gen is not above the session's, which
// inForce is then, or the user has too many.
func (ss *sessions) attach(c *conn, id, user string, gen uint64) (sess *session, old *conn, inForce uint64, denied denial) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	sess = ss.find(id, user)
	if sess == nil || sess.current == nil {
		if ss.live(user) >= ss.s.opts.Admission.UserConnections {
			return nil, nil, 0, deniedUser
		}
	}
	if sess == nil {
		sess = ss.create(user)
	}
	if gen == 0 {
		gen = sess.gen + 1
	}
	if gen <= sess.gen {
		return nil, nil, sess.gen, deniedNotNewest
	}
	if sess.idle != nil {
		ss.idle.Remove(sess.idle)
		sess.idle = nil
	}
	old = sess.current
	sess.gen, sess.current = gen, c
	return sess, old, gen, notDenied
}

// find returns the session named id if it is there and belongs to the user. It
// needs ss.mu.
func (ss *sessions) find(id, user string) *session {
	if sess := ss.all[id]; sess != nil && sess.user == user {
		return sess
	}
	return nil
}

func (ss *sessions) knows(id, user string) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.find(id, user) != nil
}

// live returns how many sessions of the user have a connection. It needs ss.mu.
func (ss *sessions) live(user string) int {
	n := 0
	if a := ss.users[user]; a != nil {
		for sess := range a.sessions {
			if sess.current != nil {
				n++
			}
		}
	}
	return n
}

// create needs ss.mu.
func (ss *sessions) create(user string) *session {
	sess := &session{id: rand.Text(), user: user}
	sess.own = &topic{session: sess, log: ss.s.newLog(), state: &ss.state}
	ss.all[sess.id] = sess
	if user == "" {
		sess.memory = newMemory(newEpoch(), ss.s)
		return sess
	}
	a := ss.account(user)
	sess.memory = a.memory
	if len(a.sessions) >= ss.s.opts.UserSessions {
		ss.dropOldest(a)
	}
	a.sessions[sess] = struct{}{}
	return sess
}

// account returns what the user's sessions share. It needs ss.mu.
func (ss *sessions) account(user string) *account {
	a := ss.users[user]
	if a == nil {
		a = &account{sessions: make(map[*session]struct{}), memory: newMemory(ss.s.dedupeID, ss.s)}
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

// detach notes that a connection of the session has ended. Of a superseded one
// that changes nothing.
func (ss *sessions) detach(sess *session, c *conn) {
	ss.mu.Lock()
	if sess.current == c {
		sess.current = nil
		sess.since = ss.s.clock()
		sess.idle = ss.idle.PushBack(sess)
		if ss.idle.Len() > ss.s.opts.IdleSessions {
			ss.drop(ss.idle.Front().Value.(*session))
		}
	}
	ss.mu.Unlock()
	ss.s.wantSweep()
}

// isNewest reports whether no connection has taken the session over from the one
// that had gen.
func (ss *sessions) isNewest(sess *session, gen uint64) bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return sess.gen == gen
}

// forget drops the sessions and accounts whose life is over and reports whether
// there is still something to wait for.
func (ss *sessions) forget() bool {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	now := ss.s.clock()
	for e := ss.idle.Front(); e != nil; e = ss.idle.Front() {
		sess := e.Value.(*session)
		if now-sess.since < ss.s.opts.SessionLife {
			break
		}
		ss.drop(sess)
	}
	waiting := ss.idle.Len() > 0
	for user, a := range ss.users {
		if len(a.sessions) > 0 {
			continue
		}
		if a.memory.isEmpty() {
			delete(ss.users, user)
		} else {
			waiting = true
		}
	}
	return waiting
}

// own returns the own stream of a session, or nil.
func (ss *sessions) own(id string) *topic {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if sess := ss.all[id]; sess != nil {
		return sess.own
	}
	return nil
}

// ofUser returns the own streams of the user's sessions.
func (ss *sessions) ofUser(user string) []*topic {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	a := ss.users[user]
	if a == nil {
		return nil
	}
	own := make([]*topic, 0, len(a.sessions))
	for sess := range a.sessions {
		own = append(own, sess.own)
	}
	return own
}

func (ss *sessions) count() (all, live int) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return len(ss.all), len(ss.all) - ss.idle.Len()
}
