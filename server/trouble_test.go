package server_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// trouble is a store in memory that can go away, lose its numbering, or know more
// than it has told: what a store does that is elsewhere.
type trouble struct {
	server.Store

	away    atomic.Int64  // since when, by the wall clock in ns; 0: it is not
	syncs   atomic.Int64  // calls of Sync
	anew    atomic.Uint64 // streams that were numbered anew
	ids     []string      // of messages that were asked about
	options server.StoreOptions

	mu      sync.Mutex
	feeds   map[string]*troubledFeed
	current map[string]server.Attachment // by session
}

var errAway = errors.New("connection refused")

// open is to be Options.Store.
func (st *trouble) open(o server.StoreOptions) (_ server.Store, err error) {
	st.options = o
	st.feeds = make(map[string]*troubledFeed)
	st.current = make(map[string]server.Attachment)
	st.Store, err = server.OpenMemory(o)
	return st, err
}

func (st *trouble) goAway()   { st.away.Store(time.Now().UnixNano()) }
func (st *trouble) comeBack() { st.away.Store(0) }

func (st *trouble) err() error {
	if st.away.Load() != 0 {
		return errAway
	}
	return nil
}

func (st *trouble) Stale() time.Duration {
	if since := st.away.Load(); since != 0 {
		return time.Since(time.Unix(0, since))
	}
	return 0
}

func (st *trouble) Stats() server.StoreStats {
	s := st.Store.Stats()
	s.Renumbered = st.anew.Load()
	s.Holes, s.Corrupt = 2*s.Renumbered, 3*s.Renumbered
	return s
}

func (st *trouble) Publish(ctx context.Context, name string, data []byte) (uint64, error) {
	if err := st.err(); err != nil {
		return 0, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if f := st.feeds[name]; f != nil && f.anew.Load() != nil {
		return f.anew.Load().Append(data)
	}
	return st.Store.Publish(ctx, name, data)
}

func (st *trouble) PublishTo(ctx context.Context, user string, data []byte) (int, error) {
	if err := st.err(); err != nil {
		return 0, err
	}
	return st.Store.PublishTo(ctx, user, data)
}

func (st *trouble) PublishToSession(ctx context.Context, id string, data []byte) (uint64, error) {
	if err := st.err(); err != nil {
		return 0, err
	}
	return st.Store.PublishToSession(ctx, id, data)
}

func (st *trouble) Follow(ctx context.Context, name string) (server.Feed, error) {
	if err := st.err(); err != nil {
		return nil, err
	}
	f, err := st.Store.Follow(ctx, name)
	if err != nil {
		return nil, err
	}
	own := &troubledFeed{Feed: f, store: st}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.feeds[name] = own
	return own, nil
}

func (st *trouble) Attach(ctx context.Context, a server.Attachment) (server.Session, error) {
	if err := st.err(); err != nil {
		return nil, err
	}
	sess, err := st.Store.Attach(ctx, a)
	if err != nil {
		return nil, err
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.current[sess.ID()] = a
	return &troubledSession{Session: sess, store: st}, nil
}

// fence does what another node does that takes a session over.
func (st *trouble) fence(session string, gen uint64) {
	st.mu.Lock()
	a := st.current[session]
	st.mu.Unlock()
	a.Fenced(gen)
}

// number makes the numbering of stream s start anew, in the epoch "anew".
func (st *trouble) number() {
	st.mu.Lock()
	f := st.feeds["s"]
	st.mu.Unlock()
	old := f.Log()
	f.anew.Store(stream.NewLog("anew", st.options.Log))
	old.Void()
	st.anew.Add(1)
}

// reread puts another log of the same numbering in place of that of stream s.
func (st *trouble) reread() error {
	st.mu.Lock()
	f := st.feeds["s"]
	st.mu.Unlock()
	old := f.Log()
	log, err := stream.Restore(old.State(), 0, st.options.Log)
	if err == nil {
		f.anew.Store(log)
		old.Void()
	}
	return err
}

// troubledFeed is a stream, or what it was replaced by.
type troubledFeed struct {
	server.Feed

	store *trouble
	anew  atomic.Pointer[stream.Log]
	late  [][]byte // what arrives with the next Sync
}

func (f *troubledFeed) Log() *stream.Log {
	if log := f.anew.Load(); log != nil {
		return log
	}
	return f.Feed.Log()
}

func (f *troubledFeed) Sync(context.Context) error {
	f.store.syncs.Add(1)
	if err := f.store.err(); err != nil {
		return err
	}
	f.store.mu.Lock()
	defer f.store.mu.Unlock()
	for _, data := range f.late {
		if _, err := f.Log().Append(data); err != nil {
			return err
		}
	}
	f.late = nil
	return nil
}

// hold keeps events back until somebody asks.
func (st *trouble) hold(name string, data ...string) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, d := range data {
		st.feeds[name].late = append(st.feeds[name].late, []byte(d))
	}
}

type troubledSession struct {
	server.Session

	store *trouble
}

func (s *troubledSession) Admit(ctx context.Context, id string, sum [16]byte) (server.Finding, error) {
	if err := s.store.err(); err != nil {
		return server.Finding{}, err
	}
	s.store.mu.Lock()
	s.store.ids = append(s.store.ids, id)
	s.store.mu.Unlock()
	return s.Session.Admit(ctx, id, sum)
}
