package redisstore

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"strconv"
	"sync"

	"github.com/longwire/longwire/server"
)

// session is a session as one connection of this node has it.
type session struct {
	s          *store
	p          *partition
	id, user   string
	gen        uint64
	connection string // the node, "." and what tells it from the node's others
	own        *handle
	fenced     func(gen uint64)
	once       sync.Once // of fenced
	renewing   sync.Mutex
}

// partitionOf returns the partition of a session that a user may have, or nil.
func (s *store) partitionOf(id, user string) *partition {
	p := s.bySession(id)
	if p != nil && user != "" && p != s.byName(user) {
		return nil
	}
	return p
}

// Knows implements server.Store.
func (s *store) Knows(ctx context.Context, id, user string) (bool, error) {
	p := s.partitionOf(id, user)
	if p == nil {
		return false, nil
	}
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	key := p.sessionKey(id)
	reply, err := s.call(ctx, p, scriptKnows, []string{p.genKey(), key}, plain(user))
	if err != nil {
		return false, err
	}
	return reply == int64(1), nil
}

// Attach implements server.Store.
func (s *store) Attach(ctx context.Context, a server.Attachment) (server.Session, error) {
	ctx, cancel := s.bounded(ctx)
	defer cancel()
	offered, p := a.Session, s.partitionOf(a.Session, a.User)
	if p == nil {
		offered = ""
		if a.User != "" {
			p = s.byName(a.User)
		} else {
			p = s.partitions[mathrand.IntN(len(s.partitions))] //nolint:gosec // spreads them
		}
	}
	sess := &session{s: s, p: p, user: a.User, connection: s.node + "." + rand.Text()[:10], fenced: a.Fenced}
	created := newSessionID(p)
	life := s.life(ownName(created)).Milliseconds()
	keys := []string{p.genKey(), p.sessionKey(offered), p.sessionKey(created), p.userKey(a.User)}
	reply, err := s.call(ctx, p, scriptAttach, keys, func(try attempt) ([]any, error) {
		return []any{
			offered, created, a.User, a.Gen, sess.connection, s.so.SessionLife.Milliseconds(), s.so.UserSessions,
			epoch(try.gen), p.prefix, life,
		}, nil
	})
	if err != nil {
		return nil, err
	}
	if err = sess.named(reply); err != nil {
		return nil, err
	}
	if sess.own, err = s.follow(ctx, p, ownName(sess.id)); err != nil {
		s.background(sess.detach) //nolint:contextcheck // it outlives the call
		return nil, err
	}
	s.mu.Lock()
	s.sessions[sess] = struct{}{}
	s.mu.Unlock()
	sess.own.attach(sess)
	return sess, nil
}

// named takes the answer of the script attach.
func (c *session) named(reply any) error {
	list, ok := reply.([]any)
	if !ok || len(list) != 2 {
		return fmt.Errorf("redisstore: the script attach returned %v", reply)
	}
	gen, err := number(list[1])
	if err != nil {
		return err
	}
	if list[0] == "" {
		return &server.NotNewestError{Gen: gen}
	}
	c.id, c.gen = list[0].(string), gen
	return nil
}

// attach lists a connection among those that can be superseded, which the ones before
// it on this node are. It may have been superseded already: what a feed hears before
// it has a connection counts too.
func (f *feed) attach(c *session) {
	f.mu.Lock()
	if f.attached == nil {
		f.attached = make(map[*session]struct{})
	}
	f.attached[c] = struct{}{}
	gen := max(f.fencing, c.gen)
	f.mu.Unlock()
	f.fence(gen)
}

// fence tells the connections that were superseded.
func (f *feed) fence(gen uint64) {
	f.mu.Lock()
	f.fencing = max(f.fencing, gen)
	var over []*session
	for c := range f.attached {
		if c.gen < gen {
			over = append(over, c)
			delete(f.attached, c)
		}
	}
	f.mu.Unlock()
	for _, c := range over {
		c.once.Do(func() { c.fenced(gen) })
	}
}

// heed takes what a read has found of the session: its fencing number, or "" when the
// record is lost.
func (f *feed) heed(fence string) {
	if gen, err := strconv.ParseUint(fence, 10, 64); err == nil {
		f.fence(gen)
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for c := range f.attached {
		f.s.background(c.renew)
	}
}

func (c *session) ID() string       { return c.id }
func (c *session) Gen() uint64      { return c.gen }
func (c *session) Own() server.Feed { return c.own }

// DedupeID implements server.Session. The records of an anonymous session are its own.
func (c *session) DedupeID() string {
	if c.user == "" {
		return c.p.memoryID() + "." + c.id[:10]
	}
	return c.p.memoryID()
}

// Detach implements server.Session.
func (c *session) Detach() {
	c.own.mu.Lock()
	delete(c.own.attached, c)
	c.own.mu.Unlock()
	c.s.mu.Lock()
	delete(c.s.sessions, c)
	c.s.mu.Unlock()
	c.own.Close()
	c.s.background(c.detach)
}

// background calls f until Redis answers, for as long as a session lives.
func (s *store) background(f func(ctx context.Context) error) {
	s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.so.SessionLife)
		defer cancel()
		if err := f(ctx); err != nil && !isAway(err) {
			s.log.Error("longwire: a session cannot be noted", "error", err)
		}
	})
}

func (c *session) detach(ctx context.Context) error {
	keys := []string{c.p.genKey(), c.p.sessionKey(c.id), c.p.userKey(c.user)}
	_, err := c.s.call(ctx, c.p, scriptDetach, keys, plain(c.id, c.user, c.connection, c.s.so.SessionLife.Milliseconds()))
	return err
}

// renew keeps the session, makes it again if it was lost, and finds out whether it
// has a newer connection.
func (c *session) renew(ctx context.Context) error {
	if !c.renewing.TryLock() {
		return nil
	}
	defer c.renewing.Unlock()
	reply, err := c.s.call(ctx, c.p, scriptRenew, c.renewKeys(), plain(c.renewArgs()...))
	if err != nil {
		return err
	}
	gen, err := number(reply)
	if err != nil {
		return err
	}
	c.own.fence(gen)
	return nil
}

func (c *session) renewKeys() []string {
	name := ownName(c.id)
	return []string{c.p.genKey(), c.p.sessionKey(c.id), c.p.userKey(c.user), c.p.metaKey(name), c.p.channel(name)}
}

func (c *session) renewArgs() []any {
	return []any{
		c.id, c.user, c.gen, c.connection, c.s.so.SessionLife.Milliseconds(), c.s.life(ownName(c.id)).Milliseconds(),
	}
}
