package server

import (
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// users is what this node knows of those who are connected to it: which sessions
// they have here, and how much they send.
type users struct {
	s    *Server
	mu   sync.Mutex
	all  map[userKey]*user
	live int // sessions with a connection
}

// userKey names a user, or the session of an anonymous one.
type userKey struct{ user, session string }

// user lives until it has no connection here and may send a full burst again.
type user struct {
	live     []place       // a slice: most have one, and a map weighs
	entering int           // connections on their way to a session
	limiter  *rate.Limiter // of messages, resent ones included
}

// place is that of the newest connection of a session here.
type place struct {
	session string
	conn    *conn
	gen     uint64
}

// find returns the index of a session's place, or -1.
func (u *user) find(session string) int {
	return slices.IndexFunc(u.live, func(p place) bool { return p.session == session })
}

func (us *users) init(s *Server) {
	us.s = s
	us.all = make(map[userKey]*user)
}

// enter makes room for a connection of user that offers a session, and reports false
// when the user has too many. Who takes over a session that is live here always may.
// Anonymous ones are not counted.
func (us *users) enter(name, session string) bool {
	if name == "" {
		return true
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.get(userKey{user: name})
	if u.find(session) < 0 && len(u.live)+u.entering >= us.s.opts.Admission.UserConnections {
		us.drop(userKey{user: name}, u)
		return false
	}
	u.entering++
	return true
}

// entered ends an enter: c has its session now, or got none.
func (us *users) entered(c *conn, sess Session) *user {
	key := userKey{user: c.identity.User}
	us.mu.Lock()
	defer us.mu.Unlock()
	if key.user == "" {
		if sess == nil {
			return nil
		}
		key.session = sess.ID()
	}
	u := us.get(key)
	if key.user != "" {
		u.entering--
	}
	if sess == nil {
		us.drop(key, u)
		return nil
	}
	newest := place{sess.ID(), c, sess.Gen()}
	i := u.find(newest.session)
	switch {
	case i < 0:
		us.live++
		u.live = append(u.live, newest)
	case u.live[i].gen < newest.gen: // else it was overtaken on its way here
		u.live[i] = newest
	}
	return u
}

// leave notes that a connection has ended. Of a superseded one that changes nothing.
func (us *users) leave(c *conn, sess Session) {
	key := userKey{user: c.identity.User}
	if key.user == "" {
		key.session = sess.ID()
	}
	us.mu.Lock()
	defer us.mu.Unlock()
	u := us.all[key]
	if u == nil {
		return
	}
	i := u.find(sess.ID())
	if i < 0 || u.live[i].conn != c {
		return
	}
	u.live = slices.Delete(u.live, i, i+1)
	us.live--
	us.drop(key, u)
}

// get needs us.mu.
func (us *users) get(key userKey) *user {
	u := us.all[key]
	if u == nil {
		a := &us.s.opts.Admission
		u = &user{limiter: rate.NewLimiter(rate.Limit(a.MessageRate), a.MessageBurst)}
		us.all[key] = u
	}
	return u
}

// drop forgets a user without connections, once what it has sent does not count any
// more: who comes back sooner finds the limiter as it was. It needs us.mu.
func (us *users) drop(key userKey, u *user) {
	if len(u.live)+u.entering > 0 || us.all[key] != u {
		return
	}
	missing := float64(u.limiter.Burst()) - u.limiter.Tokens()
	if missing <= 0 {
		delete(us.all, key)
		return
	}
	full := time.Duration(missing / float64(u.limiter.Limit()) * float64(time.Second))
	time.AfterFunc(min(full, maxLimitMemory), func() {
		us.mu.Lock()
		defer us.mu.Unlock()
		if us.all[key] == u && len(u.live)+u.entering == 0 {
			delete(us.all, key)
		}
	})
}

// maxLimitMemory is for how long a user without connections is remembered at most.
const maxLimitMemory = time.Hour

func (us *users) count() int {
	us.mu.Lock()
	defer us.mu.Unlock()
	return us.live
}
