package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// TestPublishWhileClientsComeAndGo is for the race detector: real time, everything
// at once, every reader strictly +1 or told of its gap.
func TestPublishWhileClientsComeAndGo(t *testing.T) {
	const life = 1500 * time.Millisecond
	srv, err := server.New(server.Options{
		Authenticate: byHeader,
		NoOrigin:     true,
		Heartbeat:    10 * time.Millisecond,
		WriteTimeout: 100 * time.Millisecond,
		Log:          stream.Limits{Events: 200},
		Logger:       slog.New(slog.DiscardHandler),
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
	hs := &http.Server{Handler: srv, ReadHeaderTimeout: time.Second}
	go hs.Serve(network.Listener()) //nolint:errcheck // ends with ErrServerClosed
	defer hs.Close()                //nolint:errcheck // test

	ctx, cancel := context.WithTimeout(t.Context(), life)
	defer cancel()
	var publishers, clients sync.WaitGroup
	for p := range 3 {
		publishers.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				name := []string{"a", "b", "none"}[(p+i)%3]
				if _, err := srv.Publish(ctx, name, []byte(`{"some":"event"}`)); err != nil && ctx.Err() == nil {
					t.Errorf("Publish: %v", err)
				}
				if i%10 == 0 {
					_, _ = srv.PublishTo(ctx, fmt.Sprint("user", i%5), []byte(`1`))
				}
				if i%500 == 0 {
					srv.Disconnect(fmt.Sprint("user", i%5), 4000, "now and then")
				}
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	for n := range 20 {
		clients.Go(func() {
			for ctx.Err() == nil {
				visit(ctx, t, network, n)
			}
		})
	}
	publishers.Wait()
	clients.Wait()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	if stats := srv.Stats(); stats.Connections != 0 || stats.Live != 0 || stats.Welcomes == 0 || stats.Events == 0 {
		t.Errorf("in the end: %+v", stats)
	}
}

// visit is one connection's life: it follows, sends, perhaps stalls, and leaves in
// one way or another.
func visit(ctx context.Context, t *testing.T, network *memnet.Network, n int) {
	t.Helper()
	ws, _, err := websocket.Dial(ctx, "ws://host/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}},
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
	send(`{"t":"resume","v":1,"batch":%v,"subs":{"a":{},"none":{}}}`, n%2 == 0)
	var writer sync.WaitGroup
	defer writer.Wait()
	visiting, leave := context.WithTimeout(ctx, time.Duration(rand.IntN(150))*time.Millisecond)
	defer leave()
	writer.Go(func() {
		for i := 0; visiting.Err() == nil; i++ {
			send(`{"t":"msg","id":"%d-%d-%d","body":%d}`, n, time.Now().UnixNano(), i, i)
			send(`{"t":"ping","n":%d}`, i)
			send("%s", []string{`{"t":"sub","stream":"b"}`, `{"t":"unsub","stream":"b"}`, `{"t":"sub"}`}[i%3])
			time.Sleep(time.Millisecond)
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
