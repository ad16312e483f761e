package integration_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// sharedStore is a store of several nodes. It can be away for a while, and lose what
// it held: then every stream has a new epoch.
type sharedStore struct {
	mu       sync.Mutex
	epochs   int
	streams  map[string]*sharedStream
	sessions map[string]*sharedSession // the newest connection of each
	back     chan struct{}             // closed when it answers again, nil while it does
}

type sharedStream struct {
	epoch string
	data  [][]byte
	feeds []*sharedFeed
}

func newSharedStore() *sharedStore {
	return &sharedStore{streams: make(map[string]*sharedStream), sessions: make(map[string]*sharedSession)}
}

// find needs s.mu.
func (s *sharedStore) find(name string) *sharedStream {
	st := s.streams[name]
	if st == nil {
		st = &sharedStream{epoch: s.mint()}
		s.streams[name] = st
	}
	return st
}

func (s *sharedStore) mint() string {
	s.epochs++
	return fmt.Sprint("e", s.epochs)
}

// publish appends an event that says of itself which one it is, and reports whether
// the store is there.
func (s *sharedStore) publish(name string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back != nil {
		return false
	}
	st := s.find(name)
	st.data = append(st.data, fmt.Appendf(nil, `"%s %d"`, st.epoch, len(st.data)+1))
	s.spread()
	return true
}

func (s *sharedStore) goAway() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.back == nil {
		s.back = make(chan struct{})
	}
}

// comeBack ends being away; without its memory it has lost all.
func (s *sharedStore) comeBack(memory bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !memory {
		for _, st := range s.streams {
			st.epoch, st.data = s.mint(), nil
		}
	}
	if s.back != nil {
		close(s.back)
		s.back = nil
	}
	s.spread()
}

// at returns where a stream stands.
func (s *sharedStore) at(name string) (epoch string, head uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.find(name)
	return st.epoch, uint64(len(st.data))
}

// spread lets the nodes that hear know how things stand. It needs s.mu.
func (s *sharedStore) spread() {
	for _, st := range s.streams {
		for _, f := range st.feeds {
			if !f.node.deaf && s.back == nil {
				f.read()
			}
		}
	}
}

// answers waits until the store does.
func (s *sharedStore) answers(ctx context.Context) error {
	for {
		s.mu.Lock()
		back := s.back
		s.mu.Unlock()
		if back == nil {
			return nil
		}
		select {
		case <-back:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// sharedNode is the store as one node has it. While it is deaf it hears only what it
// asks for.
type sharedNode struct {
	*sharedStore

	options server.StoreOptions
	latency time.Duration // of Attach
	deaf    bool
}

// open is to be Options.Store.
func (n *sharedNode) open(o server.StoreOptions) (server.Store, error) {
	n.options = o
	return n, nil
}

func (n *sharedNode) deafen(deaf bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.deaf = deaf
	n.spread()
}

func (n *sharedNode) Follow(ctx context.Context, name string) (server.Feed, error) {
	if err := n.answers(ctx); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.follow(name), nil
}

func (n *sharedNode) follow(name string) *sharedFeed {
	st := n.find(name)
	f := &sharedFeed{node: n, name: name}
	st.feeds = append(st.feeds, f)
	f.read()
	return f
}

func (n *sharedNode) Attach(ctx context.Context, a server.Attachment) (server.Session, error) {
	if err := errors.Join(pause(ctx, n.latency), n.answers(ctx)); err != nil {
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	id := a.Session
	old := n.sessions[id]
	if old == nil {
		id = fmt.Sprint("s", len(n.sessions)+1)
	} else {
		if a.Gen <= old.gen {
			return nil, &server.NotNewestError{Gen: old.gen}
		}
		defer old.fenced(a.Gen)
	}
	c := &sharedSession{id: id, gen: a.Gen, fenced: a.Fenced, own: n.follow("own/" + id)}
	n.sessions[id] = c
	return c, nil
}

func (n *sharedNode) Knows(ctx context.Context, session, _ string) (bool, error) {
	err := n.answers(ctx)
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.sessions[session] != nil, err
}

func (n *sharedNode) Publish(context.Context, string, []byte) (uint64, error) {
	panic("the test publishes")
}

func (n *sharedNode) PublishTo(context.Context, string, []byte) (int, error) {
	panic("the test publishes")
}

func (n *sharedNode) PublishToSession(context.Context, string, []byte) (uint64, error) {
	panic("the test publishes")
}
func (n *sharedNode) Stale() time.Duration     { return 0 }
func (n *sharedNode) Stats() server.StoreStats { return server.StoreStats{} }
func (n *sharedNode) Close() error             { return nil }

// sharedFeed is a stream as one node has it.
type sharedFeed struct {
	node *sharedNode
	name string
	log  atomic.Pointer[stream.Log]
}

// read brings the log to where the stream is. It needs the store's mu.
func (f *sharedFeed) read() {
	st := f.node.find(f.name)
	log := f.log.Load()
	if log == nil || log.Epoch() != st.epoch {
		next := stream.NewLog(st.epoch, f.node.options.Log)
		if old := f.log.Swap(next); old != nil {
			defer old.Void()
		}
		log = next
	}
	for _, data := range st.data[log.Head():] {
		if _, err := log.Append(data); err != nil {
			panic(err)
		}
	}
}

func (f *sharedFeed) Log() *stream.Log { return f.log.Load() }

func (f *sharedFeed) Sync(ctx context.Context) error {
	if err := f.node.answers(ctx); err != nil {
		return err
	}
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	f.read()
	return nil
}

func (f *sharedFeed) Close() {
	f.node.mu.Lock()
	defer f.node.mu.Unlock()
	st := f.node.find(f.name)
	st.feeds = slices.DeleteFunc(st.feeds, func(other *sharedFeed) bool { return other == f })
}

// sharedSession is a connection of a session.
type sharedSession struct {
	server.Session // of messages, which nobody sends

	id     string
	gen    uint64
	fenced func(gen uint64)
	own    *sharedFeed
}

func (c *sharedSession) ID() string       { return c.id }
func (c *sharedSession) Gen() uint64      { return c.gen }
func (c *sharedSession) Own() server.Feed { return c.own }
func (c *sharedSession) DedupeID() string { return c.id }
func (c *sharedSession) Detach()          { c.own.Close() }
