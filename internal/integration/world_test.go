package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// world is a server and a client, both real, on a network in memory.
type world struct {
	t          *testing.T
	net        *memnet.Network
	o          server.Options
	srv        *server.Server
	http       *http.Server
	client     *reconnect.Client
	ran        chan error
	stopClient func()

	mu      sync.Mutex
	log     []string
	states  []string
	urls    int
	effects map[string]int
}

// inWorld runs f in a bubble, with a server that listens and a client that runs.
func inWorld(t *testing.T, o server.Options, c reconnect.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &world{t: t, net: memnet.Listen(), o: o, effects: make(map[string]int)}
		w.serve(w.net.Listener())
		w.run(c)
		f(w)
		w.stop()
		w.shutDown()
	})
}

// serve starts a fresh server: new epochs, and no memory of ids or sessions.
func (w *world) serve(l net.Listener) {
	w.t.Helper()
	o := w.o
	o.Logger = slog.New(slog.DiscardHandler)
	o.NoOrigin = true
	if o.OnMessage == nil {
		o.OnMessage = func(_ context.Context, m server.Message) (json.RawMessage, error) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.effects[string(m.Body)]++
			return m.Body, nil
		}
	}
	srv, err := server.New(o)
	if err != nil {
		w.t.Fatal(err)
	}
	mux := http.NewServeMux()
	mux.Handle("/ws", srv)
	mux.Handle("/probe", srv.Probe())
	w.srv, w.http = srv, &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go w.http.Serve(l) //nolint:errcheck // ends with ErrServerClosed
}

// crash ends the server as SIGKILL would: no farewell.
func (w *world) crash() {
	w.t.Helper()
	w.net.Cut()
	w.shutDown()
}

func (w *world) shutDown() {
	w.t.Helper()
	_ = w.http.Close()
	if err := w.srv.Close(); err != nil {
		w.t.Errorf("server: %v", err)
	}
}

func (w *world) run(c reconnect.Options) {
	w.t.Helper()
	if c.HTTPClient == nil {
		c.HTTPClient = httpClient(w.net.DialContext)
	}
	if c.URL == nil {
		c.URL = func(context.Context) (string, error) { return "ws://server/ws", nil }
	}
	url := c.URL
	c.URL = func(ctx context.Context) (string, error) {
		w.mu.Lock()
		w.urls++
		w.mu.Unlock()
		return url(ctx)
	}
	onState := c.OnState
	c.OnState = func(s reconnect.Status) {
		w.mu.Lock()
		if n := len(w.states); n == 0 || w.states[n-1] != s.State.String() {
			w.states = append(w.states, s.State.String())
		}
		w.mu.Unlock()
		if onState != nil {
			onState(s)
		}
	}
	c.OnProblem = func(text string) { w.note("problem " + text) }
	client, err := reconnect.NewClient(c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.client = client
	w.runAgain()
}

// runAgain runs the client, for the first time or after stop.
func (w *world) runAgain() {
	w.ran = make(chan error, 1)
	ctx, cancel := context.WithCancelCause(w.t.Context())
	w.t.Cleanup(func() { cancel(errStopped) })
	go func() { w.ran <- w.client.Run(ctx) }()
	w.stopClient = func() { cancel(errStopped) }
}

func httpClient(dial func(ctx context.Context, network, address string) (net.Conn, error)) *http.Client {
	return &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
}

var errStopped = errors.New("stopped by the test")

// stop ends the client and waits for it.
func (w *world) stop() {
	w.t.Helper()
	w.stopClient()
	var end *reconnect.EndError
	if err := <-w.ran; !errors.Is(err, errStopped) && !errors.As(err, &end) {
		w.t.Errorf("Run: %v", err)
	}
}

func (w *world) note(line string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.log = append(w.log, line)
}

// taken returns the lines since the last call.
func (w *world) taken() []string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	log := w.log
	w.log = nil
	return log
}

// logging is a handler that notes everything.
func (w *world) logging() reconnect.Handler {
	return reconnect.Handler{
		Event:    func(e reconnect.EventInfo) { w.note(fmt.Sprintf("event %d %s", e.Seq, e.Data)) },
		Snapshot: func(s reconnect.SnapshotInfo) { w.note(fmt.Sprintf("snapshot %d %s", s.Position.Seq, s.State)) },
		Recovered: func(r reconnect.Recovery) {
			switch r.Outcome {
			case reconnect.NothingMissed, reconnect.Replayed:
				w.note(fmt.Sprintf("resumed missed=%d", r.Missed))
			case reconnect.GapWithSnapshot, reconnect.GapWithoutSnapshot:
				w.note(fmt.Sprintf("gap snapshot=%v", r.Outcome == reconnect.GapWithSnapshot))
			}
		},
		Refused: func(err error) { w.note(err.Error()) },
	}
}

// gapsOnly is a handler that notes no recovery but a gap.
func gapsOnly(h reconnect.Handler) reconnect.Handler {
	all := h.Recovered
	h.Recovered = func(r reconnect.Recovery) {
		if r.Outcome != reconnect.NothingMissed && r.Outcome != reconnect.Replayed {
			all(r)
		}
	}
	return h
}

func (w *world) subscribe(stream string, h reconnect.Handler) *reconnect.Subscription {
	w.t.Helper()
	s, err := w.client.Subscribe(stream, nil, h)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

// publish publishes the numbers from first to last on stream a.
func (w *world) publish(first, last int) {
	w.t.Helper()
	for i := first; i <= last; i++ {
		if _, err := w.srv.Publish(w.t.Context(), "a", fmt.Append(nil, i)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// eventually lets virtual time pass until done, a minute at most.
func (w *world) eventually(what string, done func() bool) {
	w.t.Helper()
	for range 600 {
		synctest.Wait()
		if done() {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	w.t.Fatalf("not within a minute: %s; %+v", what, w.client.Status())
}

func (w *world) live() {
	w.t.Helper()
	w.eventually("live", func() bool { return w.client.Status().State == reconnect.Live })
}
