package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// Pings of both layers every millisecond, events, acks, snapshots, answers and the
// close of a drain, all at once in real time: whole frames, one after the other.
func TestFramesStayWholeWhateverIsWrittenAtOnce(t *testing.T) {
	srv, err := server.New(server.Options{
		NoOrigin: true, OnMessage: echo,
		Admission: server.Admission{MessageRate: 1e6},
		Log:       stream.Limits{Events: 100},
		Logger:    slog.New(slog.DiscardHandler),
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{State: []byte(`"` + long(50_000) + `"`)}, nil // more than a batch
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, srv: srv, net: memnet.Listen()}
	mux := http.NewServeMux()
	mux.Handle("/ws", srv)
	hs := &http.Server{Handler: mux, ReadHeaderTimeout: time.Minute}
	go hs.Serve(w.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
	defer hs.Close()              //nolint:errcheck // test

	ctx, stop := context.WithCancel(t.Context())
	var publisher, clients sync.WaitGroup
	publisher.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			_, _ = srv.Publish(ctx, []string{"a", "b"}[i%2], []byte(`{"some":"event"}`))
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
	})
	var mu sync.Mutex
	closes := map[int]int{}
	kinds := []string{fmt.Sprint(pong), "event", "events", "ack", "pong", "subbed", "snapshot"}
	seen := map[string]int{}
	joined := make(chan struct{}, 20)
	for n := range cap(joined) {
		c := w.rawDial(upgradeRequest + maskedFrame(text, fmt.Sprintf(`{"t":"resume","v":1,"batch":%v,"subs":{"a":{}}}`, n%2 == 0)))
		clients.Go(func() {
			defer c.Close() //nolint:errcheck // test
			if status := c.upgraded(t); status != 101 {
				t.Errorf("status %d", status)
			}
			if _, err := c.read(); err != nil {
				t.Errorf("client %d: no welcome: %v", n, err)
			}
			joined <- struct{}{}
			clients.Go(func() {
				for i := 0; ; i++ {
					var err error
					switch i % 4 {
					case 0:
						err = c.write(ping, fmt.Sprint(i))
					case 1:
						err = c.write(text, fmt.Sprintf(`{"t":"ping","n":%d}`, i))
					case 2:
						err = c.write(text, fmt.Sprintf(`{"t":"msg","id":"%d-%d","body":%d}`, n, i, i))
					case 3:
						err = c.write(text, []string{`{"t":"sub","stream":"b"}`, `{"t":"unsub","stream":"b"}`}[i/4%2])
					}
					if err != nil {
						return // the connection has ended
					}
					time.Sleep(time.Millisecond)
				}
			})
			positions := map[string]uint64{}
			for {
				first, err := c.read()
				if err != nil {
					t.Errorf("client %d: %v", n, err)
					return
				}
				mu.Lock()
				seen[fmt.Sprint(first)]++
				if first == text {
					for _, f := range c.frames {
						seen[f.Type()]++
						follows(t, positions, f)
					}
				}
				if first == closing {
					closes[c.code]++
					if low, high, ok := wire.ParseRetryReason(c.reason); !ok || low >= high {
						t.Errorf("close reason %q", c.reason)
					}
				}
				mu.Unlock()
				if first == closing {
					return
				}
			}
		})
	}
	for range cap(joined) {
		<-joined
	}
	time.Sleep(500 * time.Millisecond) // of full load
	storetest.Eventually(t, "each kind of frame is seen", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return !slices.ContainsFunc(kinds, func(kind string) bool { return seen[kind] == 0 })
	})
	if _, err := srv.Drain(ctx, 200*time.Millisecond); err != nil {
		t.Error(err)
	}
	stop()
	publisher.Wait()
	clients.Wait()
	want(t, "close codes", closes, map[int]int{wire.CloseRestart: cap(joined)})
	if seen["drain"] == 0 {
		t.Error("no drain was seen")
	}
	_ = srv.Close()
}
