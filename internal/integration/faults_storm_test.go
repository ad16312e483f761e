package integration_test

import (
	"context"
	"fmt"
	"log/slog"
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
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// A restart of ten seconds, and five hundred clients: they come back spread.
func TestAfterARestartAFleetComesBackSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const clients = 500
		w := &world{t: t, net: memnet.Listen(), effects: make(map[string]int)}
		w.serve(w.net.Listener())
		f := newFleet(t, clients, w.net.DialContext, func(int) string { return "a" })
		f.allFollow(t)
		w.crash()
		time.Sleep(10 * time.Second)
		back := time.Now()
		w.serve(w.net.Listener())
		f.allFollow(t)
		after := f.since(back)
		if len(after) != clients || after[clients-1] > 30*time.Second {
			t.Errorf("%d came back, the last one after %v", len(after), after[len(after)-1])
		}
		fullest := 0
		for i := range after {
			j := i
			for j < len(after) && after[j] < after[i]+250*time.Millisecond {
				j++
			}
			fullest = max(fullest, j-i)
		}
		if fullest >= clients/10 {
			t.Errorf("%d of %d came back within 250 ms", fullest, clients)
		}
		if s := w.srv.Stats(); s.Welcomes != clients || s.Denied != nil {
			t.Errorf("welcomes %d, denied %v", s.Welcomes, s.Denied)
		}
		f.end()
		w.shutDown()
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
					Probe: "http://server/probe",
					URL: func(context.Context) (string, error) {
						mu.Lock()
						defer mu.Unlock()
						dials = append(dials, time.Now())
						return "ws://server/ws", nil
					},
				})
				if turnAways < 1 {
					w.eventually("probed", func() bool { return w.client.Totals().Probes == 1 })
				} else {
					w.eventually("turned away", func() bool { return w.client.Status().State == reconnect.Waiting })
				}
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
	synctest.Test(t, func(t *testing.T) {
		const clients, streams = 200, 4
		var computed, running, busy atomic.Int32
		w := &world{t: t, net: memnet.Listen(), effects: make(map[string]int), o: server.Options{
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
		}}
		w.serve(w.net.Listener())
		f := newFleet(t, clients, w.net.DialContext, func(i int) string { return fmt.Sprint("s", i%streams) })
		f.allFollow(t)
		time.Sleep(10 * time.Second)
		computed.Store(0)
		w.crash()
		w.serve(w.net.Listener())
		f.allFollow(t)
		if n := computed.Load(); n != streams || f.gaps != clients {
			t.Errorf("%d computations for %d streams, %d gaps for %d clients", n, streams, f.gaps, clients)
		}

		time.Sleep(10 * time.Second)
		computed.Store(0)
		busy.Store(100)
		w.net.Cut()
		synctest.Wait()
		if _, err := w.srv.Publish(t.Context(), "s0", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		f.allFollow(t)
		if n := computed.Load(); n != 0 || f.gaps != clients || busy.Load() >= 0 {
			t.Errorf("busy: %d computations, %d gaps more", n, f.gaps-clients)
		}
		f.end()
		w.shutDown()
	})
}

// node is one of several servers behind a balancer.
type node struct {
	net  *memnet.Network
	srv  *server.Server
	http *http.Server
}

func newNode(t *testing.T) *node {
	t.Helper()
	n := &node{net: memnet.Listen()}
	n.serve(t)
	return n
}

func (n *node) serve(t *testing.T) {
	t.Helper()
	srv, err := server.New(server.Options{NoOrigin: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	n.srv = srv
	n.http = &http.Server{Handler: srv, ReadHeaderTimeout: 10 * time.Second}
	go n.http.Serve(n.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
}

func (n *node) shutDown() {
	_ = n.http.Close()
	_ = n.srv.Close()
}

func (n *node) isReady(ctx context.Context) bool {
	rec := httptest.NewRecorder()
	n.srv.Ready().ServeHTTP(rec, httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil))
	return rec.Code == http.StatusOK
}

// A rolling restart of three nodes: nobody is moved more often than the nodes it sat
// on went away.
func TestARollingRestartMovesEachClientOncePerNodeItSatOn(t *testing.T) {
	for name, clients := range map[string]int{"balancer that asks for readiness": 300, "plain round robin": 100} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				heedsReadiness := clients == 300
				nodes := []*node{newNode(t), newNode(t), newNode(t)}
				var mu sync.Mutex
				next := 0
				dial := func(ctx context.Context, network, address string) (net.Conn, error) {
					mu.Lock()
					for range nodes {
						next = (next + 1) % len(nodes)
						if !heedsReadiness || nodes[next].isReady(ctx) {
							break
						}
					}
					n := nodes[next]
					mu.Unlock()
					return n.net.DialContext(ctx, network, address)
				}
				f := newFleet(t, clients, dial, nil)
				f.allFollow(t)
				sat := 0
				for _, n := range nodes {
					report, err := n.srv.Drain(t.Context(), 3*time.Second)
					if err != nil {
						t.Error(err)
					}
					sat += report.Connections
					n.shutDown()
					mu.Lock()
					n.serve(t)
					mu.Unlock()
					time.Sleep(5 * time.Second)
				}
				time.Sleep(time.Minute)
				f.allFollow(t)
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
				t.Logf("%d sessions, %d attempts, sat %d times", sessions, attempts, sat)
				f.end()
				for _, n := range nodes {
					n.shutDown()
				}
			})
		})
	}
}
