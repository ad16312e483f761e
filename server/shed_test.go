package server_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// countingListener counts the writes of the connections it accepts.
type countingListener struct {
	net.Listener
	writes *atomic.Int32
}

type countingConn struct {
	net.Conn
	writes *atomic.Int32
}

func (l countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return countingConn{conn, l.writes}, nil
}

func (c countingConn) Write(p []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(p)
}

func (c countingConn) CloseWrite() error { return c.Conn.(*net.TCPConn).CloseWrite() }

// What is said to who is turned away must arrive, whatever the peer was sending: a
// close with bytes unread would reset the connection and lose it.
func TestWhatIsSaidToWhoIsTurnedAwayArrives(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			var hs *httptest.Server
			var writes atomic.Int32
			srv, url := onLoopback(t, server.Options{Admission: server.Admission{
				Connections: 1, TurnAways: 1000,
			}}, func(s *httptest.Server) {
				hs = s
				if secure {
					s.TLS = noHTTP2()
				} else {
					s.Listener = countingListener{s.Listener, &writes}
				}
			})
			first := dialLoopback(t, url, hs.Client())
			first.listen()
			first.resume()
			writes.Store(0)
			const peers = 32
			var wg sync.WaitGroup
			for i := range peers {
				wg.Go(func() {
					conn, err := net.Dial("tcp", hs.Listener.Addr().String()) //nolint:noctx // test
					if err != nil {
						t.Error(err)
						return
					}
					defer conn.Close() //nolint:errcheck // test
					if secure {
						conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // test
					}
					// Its first frames follow at once, more or less of them.
					early := upgradeRequest
					for range i % 8 {
						early += maskedFrame(text, long(4000))
					}
					if _, err := io.WriteString(conn, early); err != nil {
						t.Error(err)
						return
					}
					time.Sleep(time.Duration(i%4) * 10 * time.Millisecond) // it may be slow to read
					raw := newRaw(conn)
					if status := raw.upgraded(t); status != 101 {
						t.Errorf("status %d", status)
						return
					}
					code, reason := raw.closeFrame(t)
					if low, high, ok := wire.ParseRetryReason(reason); code != wire.CloseTryLater || !ok || low != 15*time.Second || high != 30*time.Second {
						t.Errorf("closed with %d %q", code, reason)
					}
					if !errors.Is(raw.end, io.EOF) {
						t.Errorf("after the close frame: %v", raw.end)
					}
				})
			}
			wg.Wait()
			s := srv.Stats()
			want(t, "counts", []any{s.Shed, s.Denied, s.Connections}, []any{uint64(peers), map[string]uint64{"connections": peers}, 1})
			if n := writes.Load(); !secure && n != peers {
				t.Errorf("%d writes for %d peers, want one each", n, peers)
			}
			_ = srv.Close() // waits for whatever is left of them
		})
	}
}

// A peer that was turned away and does not go holds nothing for long.
// A browser fails a connection whose server picks none of the subprotocols that it
// offered, and so never sees the close code.
func TestWhoIsTurnedAwayGetsItsSubprotocol(t *testing.T) {
	inWorld(t, server.Options{
		Subprotocols: []string{"chat.v2", "chat.v1"}, Admission: server.Admission{Connections: 1},
	}, func(t *testing.T, w *world) {
		w.join("ann")
		for want, offered := range map[string][]string{"chat.v1": {"other", "chat.v1"}, "chat.v2": {"chat.v1", "chat.v2"}, "": nil} {
			ws, _, err := websocket.Dial(t.Context(), "ws://host/ws", &websocket.DialOptions{
				HTTPClient: &http.Client{Transport: w.transport()}, Subprotocols: offered,
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err = ws.Read(t.Context()); ws.Subprotocol() != want || websocket.CloseStatus(err) != wire.CloseTryLater {
				t.Errorf("%v: got %q and %v, want %q and 1013", offered, ws.Subprotocol(), err, want)
			}
		}
	})
}

func TestWhoIsTurnedAwayAndStaysIsDropped(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Connections: 1}}, func(t *testing.T, w *world) {
		w.join("ann")
		for _, talkative := range []bool{false, true} {
			c := w.rawDial(upgradeRequest)
			c.rude = true
			want(t, "status", c.upgraded(t), 101)
			begun := time.Now()
			for talkative && c.write(text, long(10_000)) == nil {
				time.Sleep(10 * time.Millisecond)
			}
			code, _ := c.closeFrame(t) // waits for the end of the connection too
			want(t, "code", code, wire.CloseTryLater)
			if took := time.Since(begun); took > 2*time.Second || talkative && took > 200*time.Millisecond {
				t.Errorf("talkative %v: it was there for %v", talkative, took)
			}
			_ = c.Close()
		}
		synctest.Wait()
		want(t, "connections of the network", w.net.Count(), 1)
	})
}

func TestOnlyUpgradesAreTurnedAwayWithACloseCode(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Connections: 1}}, func(t *testing.T, w *world) {
		w.join("ann")
		for _, request := range []string{
			"GET /ws HTTP/1.1\r\nHost: host\r\n\r\n",
			"POST" + upgradeRequest[3:],
			"GET /ws HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 8\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
			"GET /ws HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAA\r\n\r\n",
			"GET /ws HTTP/1.1\r\nHost: host\r\nConnection: close\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
			"GET /ws HTTP/1.0\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		} {
			if status := w.rawDial(request).upgraded(t); status != 503 {
				t.Errorf("%d to %.100q", status, request)
			}
		}
		s := w.addsUp()
		want(t, "counts", []any{s.Shed, s.Denied["connections"]}, []any{uint64(0), uint64(6)})
	})
}

func TestTheListenerAcceptsAtItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		srv, err := server.New(server.Options{Admission: server.Admission{Accepts: 2}})
		if err != nil {
			t.Fatal(err)
		}
		network := memnet.Listen()
		l := srv.Listener(network.Listener())
		var at []time.Duration
		var ended error
		done := make(chan struct{})
		begun := time.Now()
		go func() {
			defer close(done)
			for {
				conn, err := l.Accept()
				if err != nil {
					ended = err
					return
				}
				at = append(at, time.Since(begun))
				_ = conn.Close()
			}
		}()
		dial := func(n int) {
			t.Helper()
			for range n {
				conn, err := network.DialContext(t.Context(), "tcp", "host")
				if err != nil {
					t.Fatal(err)
				}
				defer conn.Close() //nolint:errcheck // test
			}
		}
		const half = time.Second / 2
		dial(6)
		time.Sleep(10 * time.Second) // a second's worth is saved, and one waits to be accepted
		synctest.Wait()
		want(t, "accepted at", at, []time.Duration{0, 0, half, 2 * half, 3 * half, 4 * half})
		_ = srv.Close() // a server that is closed still bounds what it has to refuse
		at = nil
		dial(5)
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		want(t, "accepted at once after a rest", len(at), 3)
		_ = l.Close()
		<-done
		want(t, "time", time.Since(begun), 10*time.Second+100*time.Millisecond)
		if !errors.Is(ended, net.ErrClosed) {
			t.Errorf("Accept ended with %v", ended)
		}
	})
}
