package server_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/wire"
)

// onLoopback serves on a real socket, with real time.
func onLoopback(t *testing.T, o server.Options, configure func(*httptest.Server)) (srv *server.Server, url string) {
	t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	o.NoOrigin = true
	srv, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	hs := httptest.NewUnstartedServer(srv)
	if configure != nil {
		configure(hs)
	}
	if hs.TLS != nil {
		hs.StartTLS()
	} else {
		hs.Start()
	}
	t.Cleanup(func() {
		_ = srv.Close()
		hs.Close()
	})
	return srv, "ws" + strings.TrimPrefix(hs.URL, "http")
}

func dialLoopback(t *testing.T, url string, client *http.Client) *client {
	t.Helper()
	ws, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPClient: client})
	if err != nil {
		t.Fatal(err)
	}
	ws.SetReadLimit(-1)
	t.Cleanup(func() { _ = ws.CloseNow() })
	return newClient(t, ws)
}

func TestTimeoutsOfTheHTTPServerEndWithTheUpgrade(t *testing.T) {
	for name, configure := range map[string]func(*httptest.Server){
		"plain": nil,
		"TLS":   func(hs *httptest.Server) { hs.EnableHTTP2 = false; hs.TLS = noHTTP2() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()                    // it takes its time
			const timeout = 3 * time.Second // longer than a busy machine takes for a handshake
			var hs *httptest.Server
			srv, url := onLoopback(t, server.Options{OnMessage: echo}, func(s *httptest.Server) {
				hs = s
				s.Config.ReadTimeout, s.Config.WriteTimeout, s.Config.IdleTimeout = timeout, timeout, timeout
				if configure != nil {
					configure(s)
				}
			})
			c := dialLoopback(t, url, hs.Client())
			c.listen()
			c.resume(`"subs":{"s":{}}`)
			time.Sleep(timeout + timeout/5)
			c.msg("1", "x")
			c.expect(wire.Ack{ID: "1", Result: wire.Raw(`"x"`)})
			if _, err := srv.Publish(t.Context(), "s", []byte(`1`)); err != nil {
				t.Fatal(err)
			}
			c.expect(event("s", 1, `1`))
			want(t, "disconnected", srv.Disconnect("", 1000, ""), 0)
			_ = srv.Close()
			c.closed(wire.CloseGoingAway, "server closed")
		})
	}
}

func TestStalledReaderOnARealSocket(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var hs *httptest.Server
			srv, url := onLoopback(t, server.Options{WriteTimeout: 300 * time.Millisecond}, func(s *httptest.Server) {
				hs = s
				if secure {
					s.TLS = noHTTP2()
				}
			})
			c := dialLoopback(t, url, hs.Client())
			c.send(`{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`)
			data := []byte(`"` + strings.Repeat("x", 100_000) + `"`)
			deadline := time.Now().Add(20 * time.Second)
			for srv.Stats().Stalled == 0 {
				if time.Now().After(deadline) {
					t.Fatalf("a reader that takes nothing is still connected: %+v", srv.Stats())
				}
				if _, err := srv.Publish(t.Context(), "s", data); err != nil {
					t.Fatal(err)
				}
				time.Sleep(2 * time.Millisecond)
			}
		})
	}
}

// TestNothingIsLeft opens and loses connections in every way, and looks for
// goroutines and descriptors that stayed.
func TestNothingIsLeft(t *testing.T) {
	var hs *httptest.Server
	srv, url := onLoopback(t, server.Options{SessionLife: time.Hour}, func(s *httptest.Server) { hs = s })
	transport := hs.Client().Transport.(*http.Transport)
	cycle := func(n int) {
		for i := range n {
			c := dialLoopback(t, url, hs.Client())
			if i%4 != 0 {
				c.listen()
				c.resume(`"subs":{"s":{}}`)
			}
			switch i % 3 {
			case 0:
				_ = c.ws.CloseNow()
			case 1:
				_ = c.ws.Close(4001, "")
			case 2:
				c.send(`not a frame`)
				_ = c.ws.CloseNow()
			}
		}
	}
	settle := func(most int) {
		storetest.Eventually(t, "the connections and their goroutines are gone", func() bool {
			transport.CloseIdleConnections()
			return srv.Stats().Connections == 0 && runtime.NumGoroutine() <= most
		})
	}
	defer func() {
		if t.Failed() {
			buf := make([]byte, 1<<20)
			t.Logf("%s", buf[:runtime.Stack(buf, true)])
		}
	}()
	cycle(30)
	settle(math.MaxInt)
	before := runtime.NumGoroutine()
	cycle(150)
	settle(before + 3)
	want(t, "connections, live", []int{srv.Stats().Connections, srv.Stats().Live}, []int{0, 0})
}

func TestMiddlewareThatWrapsTheResponseWriter(t *testing.T) {
	srv, err := server.New(server.Options{Logger: slog.New(slog.DiscardHandler), NoOrigin: true})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close() //nolint:errcheck // test
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		srv.ServeHTTP(wrapped{w}, r)
	}))
	defer hs.Close()
	c := dialLoopback(t, "ws"+strings.TrimPrefix(hs.URL, "http"), hs.Client())
	c.listen()
	c.resume()

	rec := httptest.NewRecorder() // cannot be hijacked
	srv.ServeHTTP(rec, httptest.NewRequestWithContext(context.Background(), http.MethodGet, "/", nil))
	want(t, "no upgrade", rec.Code, http.StatusUpgradeRequired)
}

type wrapped struct{ http.ResponseWriter }

func (w wrapped) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func BenchmarkFanOut(b *testing.B) {
	for _, clients := range []int{1, 100} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			srv, err := server.New(server.Options{NoOrigin: true})
			if err != nil {
				b.Fatal(err)
			}
			hs := httptest.NewServer(srv)
			defer hs.Close()
			defer srv.Close() //nolint:errcheck // benchmark
			var conns []net.Conn
			for range clients {
				conns = append(conns, rawDial(b, hs.Listener.Addr().String()))
			}
			data := []byte(`{"some":"event","of":"about one hundred and fifty bytes","padding":"` + strings.Repeat("x", 80) + `"}`)
			b.ReportAllocs()
			for b.Loop() {
				before := srv.Stats().Events
				if _, err := srv.Publish(b.Context(), "s", data); err != nil {
					b.Fatal(err)
				}
				for srv.Stats().Events < before+uint64(clients) {
					runtime.Gosched()
				}
			}
			for _, c := range conns {
				_ = c.Close()
			}
		})
	}
}

func noHTTP2() *tls.Config { return &tls.Config{NextProtos: []string{"http/1.1"}} }

// rawDial connects and follows s with as little as possible on the client's side.
func rawDial(b *testing.B, address string) net.Conn {
	b.Helper()
	conn, err := net.Dial("tcp", address) //nolint:noctx // benchmark
	if err != nil {
		b.Fatal(err)
	}
	const hello = `{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: " + address + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n" +
		"\x81" + string([]byte{0x80 | byte(len(hello))}) + "\x00\x00\x00\x00" + hello)); err != nil {
		b.Fatal(err)
	}
	var got []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(got), "welcome") {
		n, err := conn.Read(buf)
		if err != nil {
			b.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
	go io.Copy(io.Discard, conn) //nolint:errcheck // until it is closed
	return conn
}
