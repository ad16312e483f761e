package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// A restart of ten seconds, and five hundred clients: they come back spread.
func TestAfterARestartAFleetComesBackSpread(t *testing.T) {
	const clients = 500
	handler := func(int) reconnect.Handler { return reconnect.Handler{} }
	inFleet(t, clients, server.Options{}, handler, func(t *testing.T, f *fleet, first *node) {
		first.net.Cut()
		f.stop(first)
		time.Sleep(10 * time.Second)
		f.mark()
		second := f.start(server.Options{})
		f.live()
		dials, _ := f.seen()
		if n := len(dials); n != clients || dials[n-1] > 30*time.Second {
			t.Errorf("%d dials for %d clients, the last one after %v", n, clients, dials[n-1])
		}
		for i, at := range dials {
			within := slices.IndexFunc(dials[i:], func(other time.Duration) bool { return other >= at+250*time.Millisecond })
			if within >= clients/10 {
				t.Fatalf("%d of %d came back in the 250 ms from %v on", within, clients, at)
			}
		}
		if s := second.Stats(); s.Welcomes != clients || s.Denied != nil {
			t.Errorf("welcomes %d, denied %v", s.Welcomes, s.Denied)
		}
	})
}

// A node that is full says so with a close code or a status: either way a client
// waits for as long as it is asked to, and the server counts why.
func TestANodeThatIsFullIsGivenTheTimeItAsksFor(t *testing.T) {
	for name, turnAways := range map[string]float64{"close code": 100, "status": 0.001} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &world{t: t, net: memnet.Listen(), effects: make(map[string]int), o: server.Options{
					Admission: server.Admission{Connections: 1, TurnAways: turnAways},
				}}
				w.serve(w.net.Listener())
				dial := func() *websocket.Conn {
					ws, _, err := websocket.Dial(t.Context(), "ws://server/ws", &websocket.DialOptions{HTTPClient: httpClient(w.net.DialContext)})
					if err != nil {
						t.Fatal(err)
					}
					return ws
				}
				occupant := dial()
				if err := occupant.Write(t.Context(), websocket.MessageText, []byte(`{"t":"resume","v":1}`)); err != nil {
					t.Fatal(err)
				}
				go func() { // answers pings
					for err := error(nil); err == nil; {
						_, _, err = occupant.Read(context.Background())
					}
				}()
				before := uint64(0)
				if turnAways < 1 {
					_ = dial().CloseNow() // the one that is turned away with a close code
					before++
				}
				var mu sync.Mutex
				var dials []time.Time
				w.run(reconnect.Options{
					URL: func(context.Context) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						dials = append(dials, time.Now())
						return "ws://server/ws", nil
					},
				})
				w.eventually("turned away", func() bool { return w.client.Status().State == reconnect.Waiting })
				told := time.Now().Add(-100 * time.Millisecond) // at the earliest
				mu.Lock()
				tried := len(dials)
				mu.Unlock()
				time.Sleep(31 * time.Second)
				synctest.Wait()
				mu.Lock()
				if wait := dials[tried].Sub(told); wait < 15*time.Second || wait > 31*time.Second {
					t.Errorf("dialled after %v, asked for 15 s to 30 s", wait)
				}
				s := w.srv.Stats()
				if n := uint64(len(dials)) + before; s.Denied["connections"] != n || turnAways > 1 && s.Shed != n || turnAways < 1 && s.Shed != 1 {
					t.Errorf("%d tries: shed %d, denied %v", n, s.Shed, s.Denied)
				}
				mu.Unlock()
				_ = occupant.CloseNow()
				time.Sleep(30 * time.Second)
				w.live()
				w.stop()
				w.shutDown()
			})
		})
	}
}

// After a restart with empty logs everybody needs the state, at once: it is computed
// once per stream. A stream that is only busy is resumed.
func TestAFleetThatNeedsTheStateCostsOneComputationPerStream(t *testing.T) {
	const clients, streams = 200, 4
	var computed, running, busy, gaps atomic.Int32
	o := server.Options{
		Spread: 20 * time.Millisecond, Snapshots: 1,
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			if running.Add(1) > 1 {
				t.Error("two computations at once")
			}
			defer running.Add(-1)
			computed.Add(1)
			time.Sleep(50 * time.Millisecond)
			return server.Snapshot{State: []byte(`"state"`)}, nil
		},
		Authorize: func(context.Context, server.Identity, string) error {
			if busy.Add(-1) >= 0 {
				return &server.Refusal{Retry: time.Second}
			}
			return nil
		},
	}
	handler := func(int) reconnect.Handler {
		return reconnect.Handler{Recovered: func(r reconnect.Recovery) {
			if r.Outcome != reconnect.NothingMissed && r.Outcome != reconnect.Replayed {
				gaps.Add(1)
			}
		}}
	}
	inFleet(t, clients, o, handler, func(t *testing.T, f *fleet, first *node) {
		for i, c := range f.clients {
			if _, err := c.Subscribe(fmt.Sprint("s", i%streams), nil, handler(i)); err != nil {
				t.Fatal(err)
			}
		}
		// follow waits until all do.
		follow := func() {
			t.Helper()
			f.live()
			time.Sleep(10 * time.Second)
			for _, c := range f.clients {
				for name, stream := range c.Status().Streams {
					if stream.State != reconnect.Following && name != "" {
						t.Fatalf("stream %q is %+v", name, stream)
					}
				}
			}
		}
		follow()
		computed.Store(0)
		first.net.Cut()
		f.stop(first)
		second := f.start(o)
		follow()
		// Each follows stream a too.
		if n := computed.Load(); n != streams+1 || gaps.Load() != 2*clients {
			t.Errorf("%d computations for %d streams, %d gaps for %d clients", n, streams+1, gaps.Load(), clients)
		}

		computed.Store(0)
		gaps.Store(0)
		busy.Store(100)
		second.net.Cut()
		synctest.Wait()
		if _, err := second.Publish(t.Context(), "s0", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		follow()
		if n := computed.Load(); n != 0 || gaps.Load() != 0 || busy.Load() >= 0 {
			t.Errorf("busy: %d computations, %d gaps", n, gaps.Load())
		}
	})
}

// A rolling restart of three nodes: nobody is moved more often than the nodes it sat
// on went away.
func TestARollingRestartMovesEachClientOncePerNodeItSatOn(t *testing.T) {
	for name, clients := range map[string]int{"balancer that asks for readiness": 300, "plain round robin": 100} {
		t.Run(name, func(t *testing.T) {
			heedsReadiness := clients == 300
			handler := func(int) reconnect.Handler { return reconnect.Handler{} }
			inFleet(t, 0, server.Options{}, handler, func(t *testing.T, f *fleet, first *node) {
				var mu sync.Mutex
				next, nodes := 0, []*node{first, f.start(server.Options{}), f.start(server.Options{})}
				f.route = func() *node {
					mu.Lock()
					defer mu.Unlock()
					for range nodes {
						next = (next + 1) % len(nodes)
						if !heedsReadiness || nodes[next].isReady(t.Context()) {
							break
						}
					}
					return nodes[next]
				}
				ctx, cancel := context.WithCancel(t.Context())
				var running []<-chan struct{}
				for range clients {
					running = append(running, f.add(ctx, handler(0)))
				}
				f.live()
				sat := 0
				for i := range nodes {
					report, err := nodes[i].Drain(ctx, 3*time.Second)
					if err != nil {
						t.Error(err)
					}
					sat += report.Connections
					f.stop(nodes[i])
					n := f.start(server.Options{})
					mu.Lock()
					nodes[i] = n
					mu.Unlock()
					time.Sleep(5 * time.Second)
				}
				time.Sleep(time.Minute)
				f.live()
				sessions, attempts := 0, 0
				for i, c := range f.clients {
					totals := c.Totals()
					sessions += int(totals.Sessions)
					attempts += int(totals.Attempts)
					if totals.Sessions > 4 || totals.Attempts > 8 {
						t.Errorf("client %d: %d sessions, %d attempts", i, totals.Sessions, totals.Attempts)
					}
				}
				if sessions != clients+sat || heedsReadiness && attempts != sessions {
					t.Errorf("%d sessions in %d attempts, of %d clients that sat on nodes that went away %d times", sessions, attempts, clients, sat)
				}
				cancel()
				for _, ended := range running {
					<-ended
				}
				f.stop(nodes[0])
				f.stop(nodes[1]) // the third is the fleet's
			})
		})
	}
}

func (n *node) isReady(ctx context.Context) bool {
	rec := httptest.NewRecorder()
	n.Ready().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return rec.Code == http.StatusOK
}
