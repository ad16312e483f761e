package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

var soak = flag.Duration("soak", 3*time.Second, "how long to publish while clients come and go")

// TestPublishWhileClientsComeAndGo is for the race detector: real time, everything
// at once, one server after the other drained, and every reader strictly +1 or told
// of its gap.
func TestPublishWhileClientsComeAndGo(t *testing.T) {
	const (
		crowd  = 200
		window = 300 * time.Millisecond
	)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var shift relay
	shift.begin(t)
	var publishers, clients sync.WaitGroup
	for p := range 3 {
		publishers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				shift.publish(ctx, t, p+i, i)
			}
		})
	}
	for n := range crowd {
		clients.Go(func() {
			for ctx.Err() == nil {
				visit(ctx, t, shift.dial, n)
			}
		})
	}
	moved, closed := 0, 0
	// Not before a client had an event: on a busy machine many leave without one.
	for begun := time.Now(); time.Since(begun) < *soak || !shift.hasWritten(); {
		time.Sleep(window)
		if before := *shift.now.Load(); before[0].Stats().Connections < crowd/2 {
			continue // nobody there yet
		}
		old := shift.begin(t)
		drain, stop := context.WithTimeout(t.Context(), 10*window)
		report, err := old.Drain(drain, window)
		stop()
		if err != nil && !errors.Is(err, context.DeadlineExceeded) || report.Moved+report.Closed+report.Forced != report.Connections {
			t.Errorf("Drain = %+v, %v", report, err)
		}
		moved, closed = moved+report.Moved, closed+report.Closed
		shift.end(t, old)
	}
	cancel()
	publishers.Wait()
	clients.Wait()
	shift.end(t, shift.begin(t))
	last := *shift.now.Load()
	shift.end(t, last[0])
	t.Logf("%d servers, %d connections moved and %d closed by drains; %d events published, %d written",
		shift.servers, moved, closed, shift.published, shift.written)
}

// relay is one server after the other at one address.
type relay struct {
	now     atomic.Pointer[[]*relayed] // the newest last
	servers int

	published, written uint64 // by those that have ended
}

type relayed struct {
	*server.Server
	net  *memnet.Network
	http *http.Server
}

// begin starts a server, routes new connections to it and returns the one before.
func (r *relay) begin(t *testing.T) (old *relayed) {
	t.Helper()
	srv, err := server.New(server.Options{
		Authenticate: byHeader,
		NoOrigin:     true,
		Admission:    server.Admission{Handshakes: 1e5, MessageRate: 1e5},
		Heartbeat:    10 * time.Millisecond,
		WriteTimeout: 100 * time.Millisecond,
		Log:          stream.Limits{Events: 200},
		Logger:       slog.New(slog.DiscardHandler),
		Authorize: func(context.Context, server.Identity, string) error {
			if rand.IntN(100) == 0 {
				return server.ErrForbidden
			}
			return nil
		},
		Snapshot: func(_ context.Context, name string) (server.Snapshot, error) {
			if name == "none" {
				return server.Snapshot{}, server.ErrNoSnapshot
			}
			return server.Snapshot{State: []byte(`"s"`)}, nil
		},
		OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
			if rand.IntN(10) == 0 {
				return nil, &server.Refusal{Retry: time.Millisecond}
			}
			return m.Body, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	network := memnet.Listen()
	next := &relayed{srv, network, &http.Server{Handler: srv, ReadHeaderTimeout: time.Second}}
	go next.http.Serve(network.Listener()) //nolint:errcheck // ends with ErrServerClosed
	r.servers++
	all := []*relayed{next}
	if before := r.now.Load(); before != nil {
		old = (*before)[len(*before)-1]
		all = []*relayed{old, next}
	}
	r.now.Store(&all)
	return old
}

// end closes a server, of which nothing may be left.
func (r *relay) end(t *testing.T, old *relayed) {
	t.Helper()
	all := slices.DeleteFunc(slices.Clone(*r.now.Load()), func(other *relayed) bool { return other == old })
	r.now.Store(&all)
	if err := old.Close(); err != nil {
		t.Error(err)
	}
	_ = old.http.Close()
	stats := old.Stats()
	if stats.Connections != 0 || stats.Live != 0 {
		t.Errorf("in the end: %+v", stats)
	}
	r.published += stats.Published
	r.written += stats.Events
}

func (r *relay) hasWritten() bool {
	return r.written > 0 || slices.ContainsFunc(*r.now.Load(), func(s *relayed) bool { return s.Stats().Events > 0 })
}

func (r *relay) dial(ctx context.Context, network, address string) (net.Conn, error) {
	all := *r.now.Load()
	return all[len(all)-1].net.DialContext(ctx, network, address)
}

// publish calls what an application calls, on every server there is.
func (r *relay) publish(ctx context.Context, t *testing.T, n, i int) {
	t.Helper()
	user := fmt.Sprint("user", i%5)
	for _, srv := range *r.now.Load() {
		_, err := srv.Publish(ctx, []string{"a", "b", "none"}[n%3], []byte(`{"some":"event"}`))
		if err != nil && !errors.Is(err, server.ErrClosed) && ctx.Err() == nil {
			t.Errorf("Publish: %v", err)
		}
		if i%10 == 0 {
			_, _ = srv.PublishTo(ctx, user, []byte(`1`))
		}
		if i%1000 == 0 {
			srv.Reauthorize(user)
		}
		if i%20_000 == 0 {
			srv.Disconnect(user, 4000, "now and then")
		}
	}
}

// visit is one connection's life: it follows, sends, perhaps stalls, and leaves in
// one way or another.
func visit(ctx context.Context, t *testing.T, dial func(context.Context, string, string) (net.Conn, error), n int) {
	t.Helper()
	ws, _, err := websocket.Dial(ctx, "ws://host/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		HTTPHeader: http.Header{"User": {fmt.Sprint("user", n%5)}},
	})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // test
	ws.SetReadLimit(-1)
	send := func(format string, args ...any) {
		_ = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, format, args...))
	}
	version := `"v":1,`
	if n%4 == 0 {
		version = "" // of the base frames
	}
	send(`{"t":"resume",%s"batch":%v,"subs":{"a":{},"none":{}}}`, version, n%2 == 0)
	var writer sync.WaitGroup
	defer writer.Wait()
	visiting, leave := context.WithTimeout(ctx, time.Duration(rand.IntN(500))*time.Millisecond)
	defer leave()
	writer.Go(func() {
		for i := 0; visiting.Err() == nil; i++ {
			send(`{"t":"msg","id":"%d-%d-%d","body":%d}`, n, time.Now().UnixNano(), i, i)
			send(`{"t":"ping","n":%d}`, i)
			send("%s", []string{`{"t":"sub","stream":"b"}`, `{"t":"unsub","stream":"b"}`, `{"t":"sub"}`}[i%3])
			time.Sleep(10 * time.Millisecond)
		}
		switch n % 3 {
		case 0:
			_ = ws.Close(4001, "leaving")
		case 1:
			_ = ws.CloseNow()
		}
	})
	positions := map[string]uint64{}
	for visiting.Err() == nil {
		_, msg, err := ws.Read(ctx)
		if err != nil {
			return
		}
		frames, err := wire.Decode(msg)
		if err != nil {
			t.Errorf("unreadable message %.200q: %v", msg, err)
			return
		}
		for _, f := range frames {
			follows(t, positions, f)
		}
		if rand.IntN(500) == 0 {
			time.Sleep(150 * time.Millisecond) // beyond the write timeout
		}
	}
}

// follows checks that events of a stream come strictly one after the other.
func follows(t *testing.T, positions map[string]uint64, f wire.Frame) {
	t.Helper()
	arrived := func(name string, from uint64, n int) {
		if at, ok := positions[name]; ok && from != at+1 {
			t.Errorf("stream %q: event %d at %d", name, from, at)
		}
		positions[name] = from + uint64(n) - 1
	}
	switch f := f.(type) {
	case wire.Event:
		arrived(f.Stream, f.Seq, 1)
	case wire.Events:
		arrived(f.Stream, f.From, len(f.Data))
	case wire.Subbed:
		delete(positions, f.Stream)
	case wire.Snapshot:
		delete(positions, f.Stream) // the cursor may go back to it
	case wire.Reset:
		delete(positions, f.Stream)
	}
}

func TestNumbersAreTheOrderOfDelivery(t *testing.T) {
	const publishers, each, subscribers = 8, 500, 5
	inWorld(t, server.Options{Log: stream.Limits{Events: publishers * each}}, func(t *testing.T, w *world) {
		var clients []*client
		for range subscribers {
			clients = append(clients, w.join("ann", `"batch":true`, `"subs":{"s":{}}`))
		}
		var wg sync.WaitGroup
		for p := range publishers {
			wg.Go(func() {
				for i := range each {
					w.publish("s", fmt.Sprintf("[%d,%d]", p, i))
				}
			})
		}
		wg.Wait()
		for _, c := range clients {
			total, last := uint64(0), map[string]int{}
			take := func(seq uint64, data wire.Raw) {
				want(t, "seq", seq, total+1)
				total++
				var d [2]int
				if err := json.Unmarshal(data, &d); err != nil {
					t.Fatal(err)
				}
				key := fmt.Sprint(d[0])
				want(t, "order of one publisher", d[1], last[key])
				last[key]++
			}
			for total < publishers*each {
				switch f := c.next().(type) {
				case wire.Event:
					take(f.Seq, f.Data)
				case wire.Events:
					for i, d := range f.Data {
						take(f.From+uint64(i), d)
					}
				default:
					t.Fatalf("frame %T", f)
				}
			}
		}
	})
}
