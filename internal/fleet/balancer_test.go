//go:build unix

package fleet_test

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"
)

// checkEvery is how often the balancer asks whether a process is ready.
const checkEvery = 100 * time.Millisecond

// A balancer spreads TCP connections over processes, one after the other, and leaves
// out those that are not ready or refuse. It knows who was connected to which one.
type balancer struct {
	t        *testing.T
	listener net.Listener
	work     sync.WaitGroup

	mu       sync.Mutex
	backends []*backend
	next     int
	closed   bool
	sides    map[net.Conn]struct{} // open ones
	visits   map[string][]*visit   // by the address of the client
}

type backend struct {
	*process
	ready  bool // guarded by balancer.mu
	cancel context.CancelFunc
}

// A visit is one connection of a client.
type visit struct {
	from  time.Time
	to    *process  // nil when nobody took it
	until time.Time // zero while it is open
}

// balance listens until the end of the test.
func balance(t *testing.T, processes ...*process) *balancer {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	b := &balancer{
		t: t, listener: listener,
		sides: make(map[net.Conn]struct{}), visits: make(map[string][]*visit),
	}
	for _, p := range processes {
		b.add(p)
	}
	b.work.Go(b.accept)
	t.Cleanup(b.close)
	return b
}

func (b *balancer) close() {
	_ = b.listener.Close()
	b.mu.Lock()
	b.closed = true
	for _, one := range b.backends {
		one.cancel()
	}
	for c := range b.sides {
		_ = c.Close()
	}
	b.mu.Unlock()
	b.work.Wait()
}

// add sends clients to a process, as soon as it is ready.
func (b *balancer) add(p *process) {
	ctx, cancel := context.WithCancel(context.Background())
	one := &backend{process: p, cancel: cancel, ready: p.isReady(ctx)}
	b.mu.Lock()
	b.backends = append(b.backends, one)
	b.mu.Unlock()
	b.work.Go(func() {
		ticker := time.NewTicker(checkEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
			}
			ready := p.isReady(ctx)
			b.mu.Lock()
			one.ready = ready
			b.mu.Unlock()
		}
	})
}

// replace sends clients to p instead of to a process that has ended.
func (b *balancer) replace(old, p *process) {
	b.mu.Lock()
	i := slices.IndexFunc(b.backends, func(one *backend) bool { return one.process == old })
	b.backends[i].cancel()
	b.backends = slices.Delete(b.backends, i, i+1)
	b.mu.Unlock()
	b.add(p)
}

func (b *balancer) accept() {
	for {
		client, err := b.listener.Accept()
		if err != nil {
			if !errors.Is(err, net.ErrClosed) {
				b.t.Errorf("balancer: %v", err)
			}
			return
		}
		b.work.Go(func() { b.serve(client) })
	}
}

// turn returns the ready processes, in the order in which they are to be tried.
func (b *balancer) turn() []*process {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.next++
	var ready []*process
	for i := range b.backends {
		if one := b.backends[(b.next+i)%len(b.backends)]; one.ready {
			ready = append(ready, one.process)
		}
	}
	return ready
}

// serve connects a client to the first process that accepts.
func (b *balancer) serve(client net.Conn) {
	defer client.Close() //nolint:errcheck // it is over
	v := &visit{from: time.Now()}
	b.mu.Lock()
	b.visits[client.RemoteAddr().String()] = append(b.visits[client.RemoteAddr().String()], v)
	b.mu.Unlock()
	for _, p := range b.turn() {
		dialer := net.Dialer{Timeout: time.Second}
		server, err := dialer.DialContext(context.Background(), "tcp", p.addr)
		if err != nil {
			continue
		}
		if b.open(v, p, client, server) {
			join(client, server)
			b.end(v, client, server)
		}
		_ = server.Close()
		return
	}
}

func (b *balancer) open(v *visit, p *process, client, server net.Conn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return false
	}
	v.to = p
	b.sides[client], b.sides[server] = struct{}{}, struct{}{}
	return true
}

func (b *balancer) end(v *visit, client, server net.Conn) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v.until = time.Now()
	delete(b.sides, client)
	delete(b.sides, server)
}

// join copies in both directions until both have ended, or one has failed.
func join(client, server net.Conn) {
	var both sync.WaitGroup
	both.Go(func() { pour(client, server) })
	pour(server, client)
	both.Wait()
}

// pour copies from one connection to the other and hands the end on: half a close for
// half a close, so that nothing said before it is lost.
func pour(to, from net.Conn) {
	// Hidden from io.Copy are the ways that cost two pipes for each connection.
	_, err := io.CopyBuffer(struct{ io.Writer }{to}, struct{ io.Reader }{from}, make([]byte, 4<<10))
	if err == nil {
		err = to.(*net.TCPConn).CloseWrite()
	}
	if err != nil {
		_ = to.Close()
		_ = from.Close()
	}
}

// sat returns how many of a client's connections were open when the process that they
// were with was told to end, or later.
func (b *balancer) sat(dials []dial) (n uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, d := range dials {
		// Later ones from that address are other clients'.
		visits := b.visits[d.address]
		i := slices.IndexFunc(visits, func(v *visit) bool { return v.from.After(d.begun) })
		if i < 0 || visits[i].to == nil {
			continue
		}
		v := visits[i]
		if at, told := v.to.toldToEnd(); told && (v.until.IsZero() || v.until.After(at)) {
			n++
		}
	}
	return n
}
