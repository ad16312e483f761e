package redistest

import (
	"context"
	"io"
	"net"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy stands between clients and a server, and fails as networks do.
type Proxy struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu     sync.Mutex
	target string
	down   bool // connections are refused by closing them
	mute   bool // answers get lost
	closed bool
	lie    *strings.Replacer // what answers say instead
	conns  map[net.Conn]struct{}
}

// StartProxy starts a proxy in front of an address. It ends with the test.
func StartProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: l, target: target, conns: make(map[net.Conn]struct{})}
	p.wg.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close() // ends accept
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.Cut()
		p.wg.Wait()
	})
	return p
}

// Addr returns the address that the proxy listens on.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// URL returns that address as redis://.
func (p *Proxy) URL() string { return "redis://" + p.Addr() }

// Cut ends all connections.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close() // a failure is what is wanted
	}
}

// Down ends all connections, and new ones at once, until Up.
func (p *Proxy) Down() {
	p.set(func() { p.down = true })
	p.Cut()
}

// Up lets connections through again.
func (p *Proxy) Up() { p.set(func() { p.down, p.mute = false, false }) }

// Mute loses all answers until Up, but for those that a new connection begins with: what
// is sent arrives.
func (p *Proxy) Mute() { p.set(func() { p.mute = true }) }

// Lie has answers say one text for another, of the same length: what this machine's
// Redis would never say by itself.
func (p *Proxy) Lie(truth, lie string) {
	p.set(func() { p.lie = strings.NewReplacer(truth, lie) })
}

// Move sends new connections to another address, and ends those there are.
func (p *Proxy) Move(target string) {
	p.set(func() { p.target = target })
	p.Cut()
}

func (p *Proxy) set(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

func (p *Proxy) accept() {
	for {
		c, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.wg.Go(func() { p.serve(c) })
	}
}

func (p *Proxy) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // it has ended
	p.mu.Lock()
	target, down := p.target, p.down || p.closed
	p.mu.Unlock()
	if down {
		return
	}
	server, err := new(net.Dialer).DialContext(context.Background(), "tcp", target)
	if err != nil {
		return
	}
	defer server.Close() //nolint:errcheck // it has ended
	if !p.add(client, server) {
		return
	}
	defer p.remove(client, server)
	var answers sync.WaitGroup
	begins := new(atomic.Bool)
	answers.Go(func() {
		_, _ = io.Copy(&muted{p, client, begins}, server) // ends with either of them
		_ = client.Close()
	})
	_, _ = io.Copy(&watched{server, begins}, client)
	_ = server.Close()
	answers.Wait()
}

// watched writes to a connection and notes whether it is what a new one begins with.
type watched struct {
	net.Conn
	begins *atomic.Bool
}

// beginning matches the names of those requests. With EVAL a store greets.
var beginning = regexp.MustCompile(`(?i)^\*\d+\r\n\$\d+\r\n(hello|auth|select|client|eval)\r\n`)

func (w *watched) Write(b []byte) (int, error) {
	w.begins.Store(beginning.Match(b))
	return w.Conn.Write(b)
}

// muted writes to a connection, the truth or a lie, or nowhere.
type muted struct {
	p *Proxy
	net.Conn
	begins *atomic.Bool
}

func (m *muted) Write(b []byte) (int, error) {
	m.p.mu.Lock()
	mute, lie := m.p.mute, m.p.lie
	m.p.mu.Unlock()
	if mute && !m.begins.Load() {
		return len(b), nil
	}
	if lie != nil {
		b = []byte(lie.Replace(string(b)))
	}
	return m.Conn.Write(b)
}

func (p *Proxy) add(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.down {
		return false
	}
	for _, c := range conns {
		p.conns[c] = struct{}{}
	}
	return true
}

func (p *Proxy) remove(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.conns, c)
	}
}
