package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// node is one server behind an address that several share.
type node struct {
	*server.Server
	net  *memnet.Network
	http *http.Server
}

// fleet is the address, and the clients that dial it.
type fleet struct {
	t       *testing.T
	current atomic.Pointer[node] // whom the balancer routes to
	route   func() *node         // how it does, nil: to current
	clients []*reconnect.Client

	mu      sync.Mutex
	dials   []time.Duration // since begun
	begun   time.Time
	outages int // states other than live, once all were
}

func (f *fleet) start(o server.Options) *node {
	f.t.Helper()
	o.Logger = slog.New(slog.DiscardHandler)
	o.NoOrigin = true
	srv, err := server.New(o)
	if err != nil {
		f.t.Fatal(err)
	}
	n := &node{Server: srv, net: memnet.Listen()}
	mux := http.NewServeMux()
	mux.Handle("/ws", srv)
	mux.Handle("/probe", srv.Probe())
	n.http = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	go n.http.Serve(n.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
	f.current.Store(n)
	return n
}

func (f *fleet) stop(n *node) {
	f.t.Helper()
	_ = n.http.Close()
	if err := n.Close(); err != nil {
		f.t.Error(err)
	}
}

func (f *fleet) dial(ctx context.Context, network, address string) (net.Conn, error) {
	f.mu.Lock()
	f.dials = append(f.dials, time.Since(f.begun))
	f.mu.Unlock()
	n := f.current.Load()
	if f.route != nil {
		n = f.route()
	}
	return n.net.DialContext(ctx, network, address)
}

// mark forgets what was seen so far, and counts time from now.
func (f *fleet) mark() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.begun, f.dials, f.outages = time.Now(), nil, 0
}

// seen returns the dials since mark, and how often a client left the live state.
func (f *fleet) seen() (dials []time.Duration, outages int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.dials, f.outages
}

// inFleet runs f in a bubble, with n clients that follow stream a with the handlers.
func inFleet(t *testing.T, n int, o server.Options, handler func(client int) reconnect.Handler, f func(t *testing.T, f *fleet, first *node)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		fl := &fleet{t: t, begun: time.Now()}
		first := fl.start(o)
		ctx, cancel := context.WithCancel(t.Context())
		var running []<-chan struct{}
		for i := range n {
			running = append(running, fl.add(ctx, handler(i)))
		}
		fl.live()
		fl.mark()
		f(t, fl, first)
		cancel()
		for _, ended := range running {
			<-ended
		}
		fl.stop(fl.current.Load())
	})
}

// add runs another client, until ctx ends, and returns what is closed then.
func (f *fleet) add(ctx context.Context, h reconnect.Handler) <-chan struct{} {
	f.t.Helper()
	random := rand.New(rand.NewPCG(1, uint64(len(f.clients))))
	client, err := reconnect.NewClient(reconnect.Options{
		URL:        func(context.Context) (string, error) { return "ws://server/ws", nil },
		HTTPClient: httpClient(f.dial),
		Policy:     reconnect.Policy{Rand: random.Float64},
		OnState: func(s reconnect.Status) {
			if s.State != reconnect.Live {
				f.mu.Lock()
				f.outages++
				f.mu.Unlock()
			}
		},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	if _, err := client.Subscribe("a", nil, h); err != nil {
		f.t.Fatal(err)
	}
	f.clients = append(f.clients, client)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = client.Run(ctx) // ends with ctx
	}()
	return ended
}

// live waits until all clients are.
func (f *fleet) live() {
	f.t.Helper()
	for range 600 {
		synctest.Wait()
		if !slices.ContainsFunc(f.clients, func(c *reconnect.Client) bool { return c.Status().State != reconnect.Live }) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatal("not all live within a minute")
}

// store is the application's: it numbers the events of stream a, which every node
// publishes, and has their state, which is just how many they are.
type store struct {
	mu    sync.Mutex
	nodes []*node
	n     uint64
}

func (s *store) publish(t *testing.T) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n++
	for _, n := range s.nodes {
		if seq, err := n.Publish(t.Context(), "a", fmt.Append(nil, s.n)); err != nil || seq != s.n {
			t.Fatalf("Publish = %d, %v; want %d", seq, err, s.n)
		}
	}
}

func (s *store) snapshot(context.Context, string) (server.Snapshot, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return server.Snapshot{State: fmt.Append(nil, s.n), HasSeq: true, Seq: s.n}, nil
}

// With a second node to go to, a drain costs no client a moment: the new connection
// stands before the old one ends, and nothing is counted twice or left out.
func TestADrainWithAnotherNodeIsNotNoticed(t *testing.T) {
	const clients, window = 30, 10 * time.Second
	s := &store{}
	o := server.Options{Snapshot: s.snapshot}
	counts := make([]uint64, clients) // each client's own state
	handler := func(i int) reconnect.Handler {
		return reconnect.Handler{
			Snapshot: func(snap reconnect.SnapshotInfo) { _ = json.Unmarshal(snap.State, &counts[i]) },
			Event: func(e reconnect.EventInfo) {
				var n uint64
				if _ = json.Unmarshal(e.Data, &n); n != counts[i]+1 {
					t.Errorf("client %d: event %d at %d", i, n, counts[i])
				}
				counts[i] = n
			},
		}
	}
	inFleet(t, clients, o, handler, func(t *testing.T, f *fleet, first *node) {
		s.nodes = []*node{first}
		second := f.start(o)
		s.nodes = append(s.nodes, second)
		stop := make(chan struct{})
		ticker := time.NewTicker(100 * time.Millisecond)
		defer ticker.Stop()
		go func() {
			for {
				select {
				case <-ticker.C:
					s.publish(t)
				case <-stop:
					return
				}
			}
		}()
		report, err := first.Drain(t.Context(), window)
		if err != nil || report.Connections != clients || report.Moved != clients || report.Took > window/2 {
			t.Errorf("Drain = %+v, %v; want all %d moved in half the window", report, err, clients)
		}
		time.Sleep(window)
		close(stop)
		synctest.Wait()
		f.live()
		dials, outages := f.seen()
		if len(dials) != clients || outages != 0 {
			t.Errorf("%d dials, and %d times a client was not live", len(dials), outages)
		}
		for i, n := range counts {
			if n != s.n {
				t.Errorf("client %d ends at %d of %d", i, n, s.n)
			}
		}
		if n := second.Stats().Connections; n != clients {
			t.Errorf("%d connections at the second node", n)
		}
		f.stop(first)
	})
}

// With one node there is nowhere to move to. The old connections hold to their turn,
// and all come back to the next process, which is up by the time they were told, as no
// herd.
func TestADrainOfTheOnlyNodeCostsNoHerd(t *testing.T) {
	const clients, window, restart, spread = 1000, 8 * time.Second, 2 * time.Second, 8 * time.Second
	o := server.Options{
		RestartTime: restart, Spread: spread,
		Admission: server.Admission{Handshakes: clients, Welcomes: clients},
	}
	handler := func(int) reconnect.Handler { return reconnect.Handler{} }
	inFleet(t, clients, o, handler, func(t *testing.T, f *fleet, first *node) {
		report, err := first.Drain(t.Context(), window)
		if err != nil || report.Closed != clients || report.Took != window {
			t.Errorf("Drain = %+v, %v", report, err)
		}
		attempted, _ := f.seen()
		if n := len(attempted); n > clients {
			t.Errorf("%d clients dialled %d times while the node was draining", clients, n)
		}
		f.stop(first)
		f.start(o)
		f.live()
		dials, _ := f.seen()
		buckets := make(map[int]int)
		for _, at := range dials[len(attempted):] {
			buckets[int(at.Seconds())]++
			if at < window+restart-time.Millisecond || at > window+restart+spread+time.Second {
				t.Errorf("dial after %v", at)
			}
		}
		if n := len(dials); n != 2*clients {
			t.Errorf("%d dials, want one that is refused and one that is not of each of %d", n, clients)
		}
		for second, n := range buckets {
			if n > clients/4 {
				t.Errorf("%d of %d in second %d", n, clients, second)
			}
		}
	})
}

// Who comes while a node drains is told when to come back, and does not knock again
// before. Once it is there, it is served at once.
func TestAClientThatComesDuringADrainWaitsAsLongAsItIsTold(t *testing.T) {
	const window, restart = 20 * time.Second, 5 * time.Second
	o := server.Options{RestartTime: restart}
	handler := func(int) reconnect.Handler { return reconnect.Handler{} }
	inFleet(t, 0, o, handler, func(t *testing.T, f *fleet, first *node) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		holder := f.add(ctx, handler(0)) // holds the drain
		f.live()
		f.mark()
		var draining sync.WaitGroup
		draining.Go(func() {
			if _, err := first.Drain(ctx, window); err != nil {
				t.Errorf("Drain: %v", err)
			}
		})
		synctest.Wait()
		time.Sleep(window/2 + time.Second) // the holder has tried to move
		before, _ := f.seen()
		late := f.add(ctx, handler(0))
		synctest.Wait()
		draining.Wait()
		f.stop(first)
		f.start(o)
		f.live()
		dials, _ := f.seen()
		dials = dials[len(before):]
		// One that was refused, and one each of the two clients when it is up.
		if len(dials) != 3 || dials[1] < window+restart {
			t.Errorf("dials after %v, want one and two from %v on", dials, window+restart)
		}
		cancel()
		<-holder
		<-late
	})
}

// A message that is being handled when the only node drains is accepted over the old
// connection. What was behind it is not begun: it waits for the next process, though
// that one remembers no ids, and runs there, as does what is sent later.
func TestMessagesOfADrainAreEachHandledOnce(t *testing.T) {
	const window = 2 * time.Second
	var mu sync.Mutex
	handled := make(map[string]int)
	o := server.Options{
		OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
			mu.Lock()
			handled[string(m.Body)]++
			mu.Unlock()
			time.Sleep(3 * time.Second)
			return m.Body, nil
		},
	}
	inFleet(t, 1, o, func(int) reconnect.Handler { return reconnect.Handler{} }, func(t *testing.T, f *fleet, first *node) {
		var sending sync.WaitGroup
		send := func(body string) {
			sending.Go(func() {
				if result, err := f.clients[0].Send(t.Context(), json.RawMessage(body)); err != nil || string(result) != body {
					t.Errorf("Send(%s) = %s, %v", body, result, err)
				}
			})
			synctest.Wait()
		}
		send("1")
		send("2")
		report, err := first.Drain(t.Context(), window)
		if err != nil || report.Closed != 1 || report.Took != 3*time.Second {
			t.Errorf("Drain = %+v, %v; want the message waited for", report, err)
		}
		f.stop(first)
		synctest.Wait() // the client has heard
		send("3")
		f.start(o)
		f.live()
		sending.Wait()
		if fmt.Sprint(handled) != "map[1:1 2:1 3:1]" {
			t.Errorf("handled %v", handled)
		}
	})
}
