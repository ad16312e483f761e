package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// simWorld is a server and some clients, all real, and what is done to them.
type simWorld struct {
	*ledger
	ctx     context.Context //nolint:containedctx // that of the test
	net     *memnet.Network
	srv     *server.Server
	http    *http.Server
	clients []*simClient

	url       atomic.Int32 // what the URL callbacks do
	authorize atomic.Int32 // what Authorize says
	forbade   bool         // it ever said no
	tries     map[string]int
}

// message is the body of a message: what the handler is to do with it.
type message struct {
	Client, N int
	Kind      string
	body      string
}

var kinds = []string{"ok", "ok", "ok", "slow before", "slow after", "refuse", "later", "fail", "panic", "ok", "ok", "later"}

func (w *simWorld) options() server.Options {
	p := w.p
	o := server.Options{
		Logger:    slog.New(slog.DiscardHandler),
		NoOrigin:  true,
		Log:       stream.Limits{Events: p.Log},
		Spread:    p.Spread,
		Heartbeat: p.Heartbeat,
		Window:    p.Window,

		DedupeLimit:  p.Remember,
		DedupeWindow: p.Dedupe,
		Authenticate: func(r *http.Request) (server.Identity, error) {
			return server.Identity{User: r.Header.Get("User")}, nil
		},
		Authorize: func(ctx context.Context, _ server.Identity, _ string) error {
			switch w.authorize.Load() {
			case 1:
				return &server.Refusal{Retry: 700 * time.Millisecond}
			case 2:
				return errors.New("forbidden, as drawn")
			}
			return ctx.Err()
		},
		OnMessage: w.onMessage,
	}
	if p.Snapshots != noFunction {
		o.Snapshot = func(ctx context.Context, stream string) (server.Snapshot, error) { return w.snapshot(ctx, stream) }
	}
	if p.Own && p.Snapshots != noFunction {
		o.SessionSnapshot = func(ctx context.Context, id server.Identity) (server.Snapshot, error) {
			s, err := w.snapshot(ctx, "own/"+id.User)
			s.HasSeq = false // it differs from session to session
			return s, err
		}
	}
	return o
}

func (w *simWorld) snapshot(ctx context.Context, key string) (server.Snapshot, error) {
	n, seq := w.state(key)
	s := server.Snapshot{State: strconv.AppendInt(nil, int64(n), 10), HasSeq: w.p.Snapshots != implied, Seq: seq}
	if w.p.Snapshots == slow || w.p.Snapshots == slowAndNone {
		if err := pause(ctx, 700*time.Millisecond); err != nil {
			return s, err
		}
	}
	switch {
	case w.p.Snapshots == slowAndNone:
		return s, server.ErrNoSnapshot
	case w.p.Snapshots == failing, w.p.Snapshots == sometimes && n%2 == 1:
		return s, errors.New("failing, as drawn")
	}
	return s, nil
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (w *simWorld) onMessage(ctx context.Context, m server.Message) (json.RawMessage, error) {
	msg := message{body: string(m.Body)}
	if err := json.Unmarshal(m.Body, &msg); err != nil {
		w.fail("message %s: %v", m.Body, err)
	}
	switch msg.Kind {
	case "slow before":
		if err := pause(ctx, 3*time.Second); err != nil {
			return nil, err
		}
	case "refuse":
		return nil, &server.Refusal{Code: "no"}
	case "fail":
		return nil, errors.New("as drawn")
	case "later":
		w.mu.Lock()
		w.tries[msg.body]++
		again := w.tries[msg.body] < 3
		w.mu.Unlock()
		if again {
			return nil, &server.Refusal{Retry: 400 * time.Millisecond}
		}
	}
	w.effect(msg)
	switch msg.Kind {
	case "slow after":
		_ = pause(ctx, 3*time.Second)
	case "panic":
		panic("as drawn")
	}
	return m.Body, nil
}

// serve starts a server that knows nothing of the one before.
func (w *simWorld) serve() {
	srv, err := server.New(w.options())
	if err != nil {
		w.fail("server: %v", err)
		return
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", srv)
	mux.Handle("/probe", srv.Probe())
	w.mu.Lock()
	w.life++
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	w.srv, w.http = srv, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: quiet}
	w.mu.Unlock()
	go w.http.Serve(w.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
}

func (w *simWorld) shutDown() {
	begun := time.Now()
	if n := w.srv.Stats().Malformed; n != 0 {
		w.fail("%d malformed frames", n)
	}
	_ = w.http.Close()
	_ = w.srv.Close()
	if took := time.Since(begun); took > 10*time.Second {
		w.fail("Close took %v", took)
	}
}

// simulate runs the plan. It is called in a bubble.
func simulate(t *testing.T, p plan) error {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := &simWorld{ledger: newLedger(p), ctx: ctx, net: memnet.Listen(), tries: make(map[string]int)}
	w.serve()
	for n, user := range p.Users {
		w.addClient(n, user)
	}
	for _, c := range w.clients {
		c.subscribe("a", nil)
	}
	for _, s := range p.Steps {
		if w.failed() {
			break
		}
		w.note("-- %+v", s)
		w.step(s)
		w.fenced()
	}
	w.rest()
	for _, c := range w.clients {
		c.stop()
	}
	if !w.failed() {
		w.settled()
	}
	cancel()
	w.idle()
	w.shutDown()
	return w.err()
}

// fenced judges that a connection is closed once a newer one has its session, soon
// and even if it cannot be reached. One whose client never heard its welcome has a
// session of its own, and lives until it is found to be silent.
func (w *simWorld) fenced() {
	if w.zombies() == 0 {
		return
	}
	synctest.Wait() // one may be closing at this moment
	if n := w.zombies(); n > 0 {
		w.fail("%d connections have lost their session to another, and live on", n)
	}
}

// zombies counts such connections when all is so quiet that there can be none.
func (w *simWorld) zombies() int {
	if w.isHeld() {
		return 0 // there may be a second connection for a while
	}
	for _, c := range w.clients {
		if s := c.client.Status(); s.State != reconnect.Live || time.Since(s.Since) < 25*time.Second {
			return 0
		}
	}
	s := w.srv.Stats()
	return s.Connections - s.Live
}

// rest takes every hindrance away and waits until all is quiet.
func (w *simWorld) rest() {
	w.note("-- nothing is in the way any more")
	w.net.Refuse(false)
	w.net.Mute(false, false)
	w.net.Delay(0, 0)
	w.url.Store(0)
	w.authorize.Store(0)
	for _, c := range w.clients {
		c.delay.Store(0)
	}
	if w.forbade {
		w.net.Cut() // what was refused is asked for again with the next connection
	}
	w.await("live", 3*time.Minute, w.quiet)
	// A late loss can end in a gap that leads beyond the last event, where the
	// ledger cannot tell: then there is another event.
	for round := 1; round <= 3 && !w.failed(); round++ {
		for _, key := range streams {
			w.publishOn(key)
		}
		for _, user := range w.p.Users {
			w.publishTo(user)
		}
		if w.within(time.Minute, w.atHead) {
			break
		}
	}
	w.await("at the head", 0, w.atHead)
	w.await("settled", 6*time.Minute, w.allAnswered)
	for _, c := range w.clients {
		c.send("ok", 0)
	}
	w.await("in touch", time.Minute, w.allAnswered)
}

func (w *simWorld) allAnswered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !slices.ContainsFunc(w.sends, func(s *sent) bool { return s.answers == 0 })
}

func (w *simWorld) atHead() bool {
	return w.quiet() && !slices.ContainsFunc(w.followers(), func(f *follower) bool { return !f.atHead() })
}

func (w *simWorld) followers() []*follower {
	var all []*follower
	for _, c := range w.clients {
		for _, f := range c.follow {
			all = append(all, f)
		}
	}
	return all
}

// quiet reports whether every client is live, with one connection each, and follows
// what it is to follow.
func (w *simWorld) quiet() bool {
	for _, c := range w.clients {
		s := c.client.Status()
		if s.State != reconnect.Live || len(s.Streams) != len(c.follow) {
			return false
		}
		for _, st := range s.Streams {
			if st.State != reconnect.Following {
				return false
			}
		}
	}
	n, s := len(w.clients), w.srv.Stats()
	return s.Connections == n && s.Live == n && w.net.Count() == n
}

// within lets virtual time pass until done, and reports whether it came to that.
func (w *simWorld) within(limit time.Duration, done func() bool) bool {
	for begun := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		synctest.Wait()
		if ok := done(); ok || w.failed() || time.Since(begun) > limit {
			return ok
		}
	}
}

// await fails when it does not come to that.
func (w *simWorld) await(what string, limit time.Duration, done func() bool) {
	if w.within(limit, done) {
		w.note("-- %s", what)
		return
	}
	for _, c := range w.clients {
		w.note("client %d: %+v", c.n, c.client.Status())
	}
	w.note("%+v, %d connections", w.srv.Stats(), w.net.Count())
	w.fail("not %s within %v", what, limit)
}

// idle waits until the server has forgotten everybody.
func (w *simWorld) idle() {
	if w.failed() {
		return
	}
	time.Sleep(25 * time.Minute)
	synctest.Wait()
	s := w.srv.Stats()
	if s.Connections != 0 || s.Sessions != 0 || s.Live != 0 || s.Streams != 0 || w.net.Count() != 0 {
		w.fail("after everybody left: %+v, %d connections", s, w.net.Count())
	}
}
