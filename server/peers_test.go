package server_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// narrow leaves little room in its sockets, so that most writes stop in the middle.
type narrow struct{ net.Listener }

func (n narrow) Accept() (net.Conn, error) {
	conn, err := n.Listener.Accept()
	if err == nil {
		err = conn.(*net.TCPConn).SetWriteBuffer(4 << 10)
	}
	return conn, err
}

// peers are clients of a server on narrow sockets.
type peers struct {
	t   *testing.T
	srv *server.Server
	hs  *httptest.Server
}

func newPeers(t *testing.T, secure bool) *peers {
	t.Helper()
	p := &peers{t: t}
	p.srv, _ = onLoopback(t, server.Options{
		Authenticate: byHeader,
		Log:          stream.Limits{Events: 1 << 16, Bytes: 64 << 20},
		Admission:    server.Admission{Handshakes: 1e5},
	}, func(hs *httptest.Server) {
		p.hs = hs
		hs.Listener = narrow{hs.Listener}
		if secure {
			hs.TLS = noHTTP2()
		}
	})
	return p
}

// join connects a user that follows s, and reads the welcome.
func (p *peers) join(user string, batch bool) *rawConn {
	p.t.Helper()
	conn, err := new(net.Dialer).DialContext(p.t.Context(), "tcp", p.hs.Listener.Addr().String())
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { _ = conn.Close() })
	if p.hs.TLS != nil {
		config := p.hs.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com"
		conn = tls.Client(conn, config)
	}
	const key = "AAAAAAAAAAAAAAAAAAAAAA=="
	request := "GET / HTTP/1.1\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: " + key + "\r\nUser: " + user + "\r\n\r\n"
	hello := maskedFrame(text, fmt.Sprintf(`{"t":"resume","v":1,"batch":%v,"subs":{"s":{}}}`, batch))
	if _, err = io.WriteString(conn, request+hello); err != nil {
		p.t.Fatal(err)
	}
	c := newRaw(conn)
	want(p.t, "status", c.upgraded(p.t), http.StatusSwitchingProtocols)
	if _, err = c.read(); err != nil || len(c.frames) != 1 || c.frames[0].Type() != "welcome" {
		p.t.Fatalf("no welcome: %v, %v", c.frames, err)
	}
	return c
}

func (p *peers) publish(size int) {
	p.t.Helper()
	if _, err := p.srv.Publish(p.t.Context(), "s", []byte(`"`+long(size)+`"`)); err != nil {
		p.t.Error(err)
	}
}

// byLittle reads a little at a time.
type byLittle struct {
	net.Conn
	n int
}

func (b byLittle) Read(p []byte) (int, error) { return b.Conn.Read(p[:min(len(p), b.n)]) }

// drained ends the server's connections, of which nothing may be left.
func (p *peers) drained() {
	p.t.Helper()
	if _, err := p.srv.Drain(p.t.Context(), 0); err != nil {
		p.t.Error(err)
	}
	want(p.t, "connections", p.srv.Stats().Connections, 0)
}

func TestReadersOfEverySpeedGetAllOfIt(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "TLS": true} {
		t.Run(name, func(t *testing.T) {
			const readers, events = 12, 300
			p := newPeers(t, secure)
			var reading, pinging sync.WaitGroup
			var pongs atomic.Int64
			all := make(chan struct{}, readers)
			for n := range readers {
				c := p.join("ann", n%3 != 0)
				c.r.Reset(byLittle{c.Conn, 1 << (4 + n)})
				pinging.Go(func() {
					for i := 0; ; i++ {
						kind, payload := byte(ping), fmt.Sprint(i)
						if i%2 == 0 {
							kind, payload = text, fmt.Sprintf(`{"t":"ping","n":%d}`, i)
						}
						if c.write(kind, payload) != nil {
							return // the connection has ended
						}
						for range rand.IntN(100) {
							runtime.Gosched()
						}
					}
				})
				reading.Go(func() {
					defer c.Close() //nolint:errcheck // test
					positions := map[string]uint64{}
					for c.code == 0 {
						first, err := c.read()
						if err != nil {
							t.Errorf("reader %d, at %d: %v", n, positions["s"], err)
							return
						}
						switch first {
						case pong:
							pongs.Add(1)
						case text:
							before := positions["s"]
							for _, f := range c.frames {
								follows(t, positions, f)
							}
							if before < events && positions["s"] == events {
								all <- struct{}{}
							}
						}
					}
					if c.code != wire.CloseRestart {
						t.Errorf("reader %d: close code %d", n, c.code)
					}
				})
			}
			for range events {
				p.publish(8 + rand.IntN(3000))
			}
			for range readers {
				<-all
			}
			want(t, "closed", p.srv.Disconnect("ann", wire.CloseRestart, ""), readers)
			reading.Wait()
			pinging.Wait()
			if pongs.Load() == 0 {
				t.Error("no pong came between the events")
			}
			p.drained()
		})
	}
}

// Readers stop and go on as they like, and one never reads: the others get everything
// meanwhile, on the stream of all and on their own.
func TestReadersThatStopHoldUpNobody(t *testing.T) {
	const readers, events = 30, 150
	p := newPeers(t, false)
	dead := p.join("dead", true)
	var mu sync.Mutex
	moved := sync.NewCond(&mu)
	published := 0
	var reading sync.WaitGroup
	for n := range readers {
		c := p.join(fmt.Sprint("user", n), n%2 == 0)
		r := rand.New(rand.NewPCG(uint64(n), 1)) //nolint:gosec // repeatable
		reading.Go(func() {
			positions := map[string]uint64{}
			for positions["s"] < events || positions[""] < events/10 {
				if r.IntN(10) == 0 { // until some more were published
					mu.Lock()
					for stop := published + r.IntN(30); published < min(stop, events); {
						moved.Wait()
					}
					mu.Unlock()
				}
				first, err := c.read()
				if err != nil {
					t.Errorf("reader %d, at %v: %v", n, positions, err)
					return
				}
				if first == text {
					for _, f := range c.frames {
						follows(t, positions, f)
					}
				}
			}
			_ = c.Close()
		})
	}
	for i := 1; i <= events; i++ {
		p.publish(rand.IntN(8000))
		for n := range readers {
			if i%10 == 0 {
				if _, err := p.srv.PublishTo(t.Context(), fmt.Sprint("user", n), []byte(`1`)); err != nil {
					t.Error(err)
				}
			}
		}
		mu.Lock()
		published = i
		moved.Broadcast()
		mu.Unlock()
	}
	reading.Wait()
	_ = dead.Close()
	p.drained()
}

// A peer that has closed its half, or said goodbye, while a write to it waits: the
// write's frame stays whole, nothing comes after the close frame, and nothing is left.
func TestAPeerLeavesWhileItIsWrittenTo(t *testing.T) {
	for name, leave := range map[string]func(c *rawConn) error{
		"half-closed": func(c *rawConn) error { return c.Conn.(*net.TCPConn).CloseWrite() },
		"reset": func(c *rawConn) error {
			_ = c.Conn.(*net.TCPConn).SetLinger(0)
			return c.Close()
		},
		"goodbye": func(c *rawConn) error { return c.write(closing, "\x0f\xa1bye") },
	} {
		t.Run(name, func(t *testing.T) {
			p := newPeers(t, false)
			c, witness := p.join("ann", true), p.join("bob", true)
			c.rude = true
			const events = 100
			for range events {
				p.publish(10_000) // far more than c's socket takes
			}
			positions := map[string]uint64{}
			for positions["s"] < events {
				if _, err := witness.read(); err != nil {
					t.Fatal(err)
				}
				for _, f := range witness.frames {
					follows(t, positions, f)
				}
			}
			if err := leave(c); err != nil {
				t.Fatal(err)
			}
			if name == "goodbye" {
				if code, _ := c.closeFrame(t); code != wire.CloseLeaving {
					t.Errorf("code %d, want it echoed", code)
				}
				_ = c.Close()
			}
			storetest.Eventually(t, "the connection has gone", func() bool { return p.srv.Stats().Connections == 1 })
			p.publish(1)
			if _, err := witness.read(); err != nil {
				t.Error(err)
			}
			_ = witness.Close()
			p.drained()
		})
	}
}

func TestAnIdleConnectionHasOneGoroutine(t *testing.T) {
	const conns = 50
	p := newPeers(t, false)
	p.join("ann", true) // the worker it starts is there
	before := runtime.NumGoroutine()
	for range conns {
		p.join("ann", true)
	}
	most := before + conns + runtime.GOMAXPROCS(0)
	storetest.Eventually(t, "each connection has one goroutine", func() bool { return runtime.NumGoroutine() <= most })
}
