package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
)

// BenchmarkPublish measures from the call of Publish until the last follower has
// read the event, on a network in memory, and the call alone.
func BenchmarkPublish(b *testing.B) {
	for _, followers := range []int{1, 1000} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			srv, err := server.New(server.Options{Logger: slog.New(slog.DiscardHandler), NoOrigin: true, Admission: server.Admission{Handshakes: 10_000}})
			if err != nil {
				b.Fatal(err)
			}
			network := memnet.Listen()
			hs := &http.Server{Handler: srv, ReadHeaderTimeout: time.Minute}
			go hs.Serve(network.Listener()) //nolint:errcheck // ends with ErrServerClosed
			b.Cleanup(func() {
				_ = srv.Close()
				_ = hs.Close()
			})

			var read atomic.Int64
			all := make(chan struct{}, 1)
			for range followers {
				ws := follow(b, network)
				go func() {
					for {
						if _, _, err := ws.Read(context.Background()); err != nil {
							return
						}
						if read.Add(1)%int64(followers) == 0 {
							all <- struct{}{}
						}
					}
				}()
			}
			data := []byte(`{"text":"` + strings.Repeat("x", 139) + `"}`)
			var calls time.Duration
			b.ReportAllocs()
			for b.Loop() {
				start := time.Now()
				if _, err := srv.Publish(b.Context(), "quotes", data); err != nil {
					b.Fatal(err)
				}
				calls += time.Since(start)
				<-all
			}
			b.ReportMetric(float64(calls.Nanoseconds())/float64(b.N), "ns/call")
		})
	}
}

// follow connects and follows the stream; the welcome has been read.
func follow(b *testing.B, network *memnet.Network) *websocket.Conn {
	b.Helper()
	transport := &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}
	ws, res, err := websocket.Dial(b.Context(), "ws://host/", &websocket.DialOptions{HTTPClient: &http.Client{Transport: transport}})
	if err != nil {
		b.Fatal(err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	b.Cleanup(func() { _ = ws.CloseNow() })
	if err := ws.Write(b.Context(), websocket.MessageText, []byte(`{"t":"resume","v":1,"batch":true,"subs":{"quotes":{}}}`)); err != nil {
		b.Fatal(err)
	}
	if _, _, err := ws.Read(b.Context()); err != nil {
		b.Fatal(err)
	}
	return ws
}
