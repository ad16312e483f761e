package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// visitors make connections that come to nothing, or end, in every way there is.
type visitors struct {
	*world
	rand *rand.Rand
	n    int
	here []*client // connections that should be open
}

// add makes a connection with a session of its own.
func (v *visitors) add() *client {
	v.n++
	c := v.join(fmt.Sprint("user", v.n), fmt.Sprintf(`"subs":{"stream%d":{}}`, v.n%7))
	v.here = append(v.here, c)
	return c
}

// one returns a connection that is open.
func (v *visitors) one() *client {
	if len(v.here) == 0 {
		return v.add()
	}
	return v.here[v.rand.IntN(len(v.here))]
}

// refused dials in vain.
func (v *visitors) refused(user string, header ...string) {
	v.t.Helper()
	if _, _, err := v.tryDial(user, header...); err == nil {
		v.t.Errorf("%s %v is connected", user, header)
	}
}

// end drops c from those that are here, once it has read that it is closed.
func (v *visitors) end(c *client) {
	c.until("")
	v.here = slices.DeleteFunc(v.here, func(other *client) bool { return other == c })
}

// act does one thing of many.
func (v *visitors) act() {
	switch v.rand.IntN(13) {
	case 0:
		v.refused("ann", "Origin", "https://elsewhere.example")
	case 1:
		v.refused("nobody")
	case 2:
		v.refused("forbidden")
	case 3:
		v.refused("broken")
	case 4:
		v.get(http.MethodGet, "/ws") // no upgrade
	case 5: // says something else first
		c := v.dial("ann")
		c.send(`{"t":"ping","n":1}`)
		c.closed(wire.CloseBadRequest, "ping")
	case 6: // is gone before it says anything
		_ = v.dial("ann").ws.CloseNow()
	case 7: // says nothing
		v.dial("ann").closed(wire.CloseNoSignOfLife, "resume")
	case 8: // the page goes
		c := v.one()
		_ = c.ws.Close(wire.CloseLeaving, "leaving")
		v.end(c)
	case 9: // the link goes
		c := v.one()
		_ = c.ws.CloseNow()
		v.end(c)
	case 10: // its session has another connection, and another yet that is too old
		c := v.add()
		session := fmt.Sprintf(`"session":%q,"gen":%d`, c.welcome.Session, c.welcome.Gen+1)
		user := fmt.Sprint("user", v.n)
		v.here = append(v.here, v.join(user, session))
		v.end(c)
		late := v.dial(user)
		late.send(`{"t":"resume","v":1,%s}`, session)
		late.closed(wire.CloseNotNewest, "gen=")
	case 11: // a handler panics, and the connection lives
		c := v.one()
		c.msg(fmt.Sprint("id", v.rand.Uint64()), "x")
		c.until("nack")
	case 12: // the application ends it
		c := v.add()
		v.srv.Disconnect(fmt.Sprint("user", v.n), wire.CloseForbidden, "")
		v.end(c)
	}
	if len(v.here) < 20 {
		v.add()
	}
	synctest.Wait()
}

// check compares the sums with each other and with what is known to be open.
func (v *visitors) check() exported {
	v.t.Helper()
	synctest.Wait()
	e := v.collect()
	open := float64(len(v.here))
	want(v.t, "connections, live", []float64{e["connections"], e["sessions{live}"]}, []float64{open, open})
	want(v.t, "denied + welcomes", e.sum("handshakes_denied_total")+e.sum("welcomes_total"), e["handshakes_total"])
	want(v.t, "closed + live", e.sum("connections_closed_total")+open, e.sum("welcomes_total"))
	return e
}

// TestSumsAddUp is about gauges that drift: what is refused was never counted in, and
// what ends twice is counted out once.
func TestSumsAddUp(t *testing.T) {
	const seed = 1
	inWorld(t, server.Options{
		Authenticate: func(r *http.Request) (server.Identity, error) {
			switch user := r.Header.Get("User"); user {
			case "nobody":
				return server.Identity{}, server.ErrUnauthorized
			case "forbidden":
				return server.Identity{}, server.ErrForbidden
			case "broken":
				return server.Identity{}, errors.New("the database is away")
			default:
				return server.Identity{User: user}, nil
			}
		},
		OnMessage:    func(context.Context, server.Message) (json.RawMessage, error) { panic("a bug") },
		Admission:    server.Admission{Connections: 60, Replays: 4},
		HelloTimeout: time.Second,
	}, func(t *testing.T, w *world) {
		v := &visitors{world: w, rand: rand.New(rand.NewPCG(seed, 0))}
		for i := range 500 {
			v.act()
			if i%20 == 0 {
				v.check()
			}
		}
		e := v.check()
		for _, key := range []string{
			"handshakes_denied_total{origin}", "handshakes_denied_total{unauthorized}", "handshakes_denied_total{forbidden}",
			"handshakes_denied_total{failed}", "handshakes_denied_total{bad_upgrade}", "handshakes_denied_total{bad_hello}",
			"handshakes_denied_total{gone}", "handshakes_denied_total{no_hello}", "handshakes_denied_total{not_newest}",
			"connections_closed_total{4001,client}", "connections_closed_total{1006,lost}", "connections_closed_total{4409,server}",
			"connections_closed_total{4403,server}", "panics_total",
		} {
			if e[key] == 0 {
				t.Errorf("%s never happened", key)
			}
		}
		for len(v.here) < 60 {
			v.add()
		}
		v.dial("ann").closed(wire.CloseTryLater, "retry=") // no room
		v.check()

		w.net.Cut()
		v.here = nil
		time.Sleep(time.Hour)
		e = v.check()
		want(t, "sessions, streams", []float64{e.sum("sessions"), e["streams"]}, []float64{0, 0})

		last := v.add()
		if _, err := w.srv.Drain(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		v.end(last)
		v.refused("ann")
		want(t, "turned away while draining", v.check()["handshakes_denied_total{draining}"], 1)
		if err := w.srv.Close(); err != nil {
			t.Error(err)
		}
		v.refused("ann")
		want(t, "turned away when closed", v.check()["handshakes_denied_total{closed}"], 1)
	})
}

// TestScrapesUnderLoad is for the race detector: real time, publishers, clients that
// come and go, a drain, and scrapes from all sides, each of which answers at once.
func TestScrapesUnderLoad(t *testing.T) {
	srv, err := server.New(server.Options{Authenticate: byHeader, NoOrigin: true, Logger: slog.New(slog.DiscardHandler), OnMessage: echo})
	if err != nil {
		t.Fatal(err)
	}
	network := memnet.Listen()
	hs := &http.Server{Handler: srv, ReadHeaderTimeout: time.Second}
	go hs.Serve(network.Listener()) //nolint:errcheck // ends with ErrServerClosed
	defer hs.Close()                //nolint:errcheck // test

	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	var load, scrapes sync.WaitGroup
	for p := range 2 {
		load.Go(func() {
			for i := 0; ctx.Err() == nil; i++ {
				_, _ = srv.Publish(ctx, fmt.Sprint("stream", (p+i)%50), []byte(`{"some":"event"}`))
				time.Sleep(50 * time.Microsecond)
			}
		})
	}
	for n := range 10 {
		load.Go(func() {
			for ctx.Err() == nil {
				comeAndGo(ctx, network, n)
			}
		})
	}
	var mu sync.Mutex
	var took []time.Duration
	handler := srv.Metrics()
	draining := make(chan struct{})
	for range 4 {
		scrapes.Go(func() {
			for drained := false; !drained; {
				select {
				case <-draining:
					drained = true // and once more
				default:
				}
				start := time.Now()
				scrape(t, handler)
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	<-ctx.Done()
	drain, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	if _, err := srv.Drain(drain, 200*time.Millisecond); err != nil {
		t.Error(err)
	}
	close(draining)
	load.Wait()
	scrapes.Wait()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
	slices.Sort(took)
	t.Logf("%d scrapes, half of them within %v, all within %v", len(took), took[len(took)/2], took[len(took)-1])
	if took[len(took)/2] > time.Second {
		t.Errorf("half of the scrapes took more than %v", took[len(took)/2])
	}
}

// comeAndGo follows a stream for some events and leaves.
func comeAndGo(ctx context.Context, network *memnet.Network, n int) {
	ws, _, err := websocket.Dial(ctx, "ws://host/", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}},
	})
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // leaving
	err = ws.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"t":"resume","v":1,"away":5,"subs":{"stream%d":{}}}`, n))
	for range 20 {
		if err == nil {
			_, _, err = ws.Read(ctx)
		}
	}
}

// TestAScrapeWaitsForNobody scrapes while everything of the application's hangs.
func TestAScrapeWaitsForNobody(t *testing.T) {
	inWorld(t, server.Options{
		OnMessage: func(ctx context.Context, _ server.Message) (json.RawMessage, error) { return nil, tooLong(ctx) },
		Authorize: func(ctx context.Context, _ server.Identity, stream string) error {
			if stream == "slow" {
				return tooLong(ctx)
			}
			return nil
		},
		Snapshot:  func(ctx context.Context, _ string) (server.Snapshot, error) { return server.Snapshot{}, tooLong(ctx) },
		Snapshots: 1,
	}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"a":{},"b":{}}`)
		c.msg("1", "x")
		c.send(`{"t":"sub","stream":"slow"}`)
		synctest.Wait()
		go w.srv.Drain(t.Context(), time.Hour) //nolint:errcheck // ends with the test
		synctest.Wait()
		start := time.Now()
		e := w.collect()
		want(t, "time of a scrape", time.Since(start), 0)
		got := map[string]float64{}
		for _, key := range []string{"messages_running", "snapshots_running", "snapshots_waiting", "drain_phase"} {
			got[key] = e[key]
		}
		want(t, "what runs", got, map[string]float64{"messages_running": 1, "snapshots_running": 1, "snapshots_waiting": 1, "drain_phase": 2})
	})
}
