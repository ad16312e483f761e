package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// The balancer lags: until it has noticed, upgrades are served, and Ready says no.
// Then they are refused, and the probe says the same.
func TestDrainServesUpgradesInTheGraceAndRefusesThemInTheWindow(t *testing.T) {
	const grace, window, restart = 5 * time.Second, 10 * time.Second, 4 * time.Second
	inWorld(t, server.Options{DrainGrace: grace, RestartTime: restart}, func(t *testing.T, w *world) {
		early := w.join("ann")
		want(t, "ready before", w.ready(), http.StatusOK)
		draining := w.drain(window, 0)
		want(t, "ready in the grace", w.ready(), http.StatusServiceUnavailable)
		want(t, "probe in the grace", w.get(http.MethodGet, "/probe").StatusCode, http.StatusNoContent)
		late := w.join("ann")
		early.silent()
		hello := w.dial("ann") // has not sent its resume when the grace is over
		time.Sleep(grace)
		synctest.Wait()
		for _, c := range []*client{early, late} {
			c.expect(wire.Drain{Within: window.Milliseconds()})
		}
		hello.closed(wire.CloseRestart, wire.RetryReason(window+restart, window+restart+8*time.Second))

		time.Sleep(2500 * time.Millisecond)
		want(t, "ready in the window", w.ready(), http.StatusServiceUnavailable)
		_, res, err := w.tryDial("ann")
		if err == nil || res.StatusCode != http.StatusServiceUnavailable {
			t.Fatalf("upgrade in the window: %v", err)
		}
		probe := w.get(http.MethodGet, "/probe")
		want(t, "probe in the window", probe.StatusCode, http.StatusServiceUnavailable)
		for _, got := range []*http.Response{res, probe} {
			want(t, "Retry-After", got.Header.Get("Retry-After"), "12") // 7.5 s and 4, rounded up
		}

		done := <-draining
		want(t, "report", done.report, server.DrainReport{Connections: 3, Closed: 3, Took: grace + window})
		if err := w.srv.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, "ready after Close", w.ready(), http.StatusServiceUnavailable)
		want(t, "denied", w.srv.Stats().Denied, map[string]uint64{"draining": 2})
	})
}

// An upgrade that is being authenticated when the window begins comes too late.
func TestDrainClosesWhoIsAcceptedBetweenItsPhases(t *testing.T) {
	release := make(chan struct{})
	inWorld(t, server.Options{
		Authenticate: func(*http.Request) (server.Identity, error) {
			<-release
			return server.Identity{}, nil
		},
	}, func(t *testing.T, w *world) {
		release = make(chan struct{}) // of the bubble
		dialled := make(chan *client)
		go func() { dialled <- w.dial("") }()
		synctest.Wait()
		draining := w.drain(3*time.Second, 0)
		done := <-draining
		want(t, "report", done.report, server.DrainReport{})
		close(release)
		(<-dialled).closed(wire.CloseRestart, "retry=4000-12000")
	})
}

// A hello that is being answered when the window begins is told like any other.
func TestDrainDuringAHello(t *testing.T) {
	var release chan struct{}
	inWorld(t, server.Options{
		Authorize: func(context.Context, server.Identity, string) error {
			<-release
			return nil
		},
	}, func(t *testing.T, w *world) {
		release = make(chan struct{})
		c := w.dial("")
		c.send(fullHello)
		synctest.Wait()
		draining := w.drain(3*time.Second, 0)
		time.Sleep(time.Second)
		close(release)
		c.closed(wire.CloseRestart, "retry=4000-12000")
		want(t, "report", (<-draining).report, server.DrainReport{Connections: 1, Closed: 1, Took: time.Second})
	})
}

// So is one that is not answered by the deadline. What it comes to later does not
// take the session from the connection that has it, nor keep one alive.
func TestDrainDropsAHelloThatTakesTooLong(t *testing.T) {
	for name, window := range map[string]time.Duration{"in the grace": 0, "in the window": 4 * time.Second} {
		t.Run(name, func(t *testing.T) {
			var release chan struct{}
			o := server.Options{
				Authorize: func(context.Context, server.Identity, string) error {
					<-release
					return nil
				},
			}
			if window == 0 {
				o.DrainGrace = time.Minute
			}
			inWorld(t, o, func(t *testing.T, w *world) {
				release = make(chan struct{})
				ann := w.join("ann")
				c := w.dial("ann")
				c.send(`{"t":"resume","v":1,"session":%q,"subs":{"s":{}}}`, ann.welcome.Session)
				done := <-w.drain(window, time.Second)
				want(t, "report", done.report, server.DrainReport{Connections: 2, Forced: 2, Took: time.Second})
				close(release)
				synctest.Wait()
				stats := w.srv.Stats()
				want(t, "connections, sessions, live, superseded",
					[]int{stats.Connections, stats.Sessions, stats.Live, int(stats.Superseded)}, []int{0, 1, 0, 0})
			})
		})
	}
}

// The message that is being handled when the turn of its connection comes is
// answered, over that connection; those behind it are not begun, and that is said.
func TestDrainAnswersTheMessageThatIsBeingHandled(t *testing.T) {
	const takes = 7 * time.Second
	var begun []string
	inWorld(t, server.Options{
		OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
			begun = append(begun, m.ID)
			time.Sleep(takes)
			return m.Body, nil
		},
	}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		c.msg("1", "1")
		c.msg("2", "2")
		synctest.Wait()
		draining := w.drain(0, 0)
		c.msg("3", "3")
		time.Sleep(time.Second)
		w.publish("s", `1`)
		notBegun := func(id string) wire.Frame {
			return wire.Nack{ID: id, Code: wire.NackBusy, Reason: "the node goes away", HasRetry: true, Retry: 5000}
		}
		c.expect(notBegun("2"), notBegun("3"), event("s", 1, `1`), wire.Ack{ID: "1", Result: wire.Raw(`"1"`)})
		c.closed(wire.CloseRestart, "retry=1000-")
		done := <-draining
		want(t, "report", done.report, server.DrainReport{Connections: 1, Closed: 1, Took: takes})
		want(t, "error", done.err, nil)
		want(t, "begun", begun, []string{"1"})
	})
}

// Drain does not return while a message runs whose connection has gone.
func TestDrainWaitsForTheMessagesOfThoseWhoLeft(t *testing.T) {
	const takes = 3 * time.Second
	handled := 0
	inWorld(t, server.Options{
		OnMessage: func(context.Context, server.Message) (json.RawMessage, error) {
			time.Sleep(takes)
			handled++
			return nil, nil
		},
	}, func(t *testing.T, w *world) {
		c := w.join("ann")
		c.msg("1", "1")
		c.msg("2", "2")
		synctest.Wait()
		c.link.Cut()
		synctest.Wait()
		want(t, "report", (<-w.drain(time.Second, 0)).report, server.DrainReport{Took: 2 * takes})
		want(t, "handled", handled, 2)
	})
}

func TestDrainWhoseTimeIsOverEarly(t *testing.T) {
	for name, o := range map[string]server.Options{
		"in the grace":  {DrainGrace: time.Minute},
		"in the window": {},
		"by a handler": {OnMessage: func(ctx context.Context, _ server.Message) (json.RawMessage, error) {
			<-ctx.Done()
			return nil, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, o, func(t *testing.T, w *world) {
				c := w.join("ann")
				c.msg("1", "1")
				synctest.Wait()
				done := <-w.drain(20*time.Second, 10*time.Second)
				want(t, "report", done.report, server.DrainReport{Connections: 1, Forced: 1, Took: 10 * time.Second})
				want(t, "error", done.err, context.DeadlineExceeded)
				synctest.Wait()
				want(t, "connections", w.srv.Stats().Connections, 0)
			})
		})
	}
}

func TestDrainTwiceAndAfterClose(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.join("ann")
		first := w.drain(10*time.Second, 0)
		second := <-w.drain(0, 0)
		want(t, "second", second, drained{err: server.ErrDraining})
		c.expect(wire.Drain{Within: 10_000})
		c.silent()
		want(t, "first", (<-first).err, nil)
		want(t, "third", <-w.drain(0, 0), drained{err: server.ErrDraining})
		if err := w.srv.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, "after Close", <-w.drain(0, 0), drained{err: server.ErrClosed})
	})
}

// Close takes over: the connections that are left get its goodbye.
func TestCloseDuringDrain(t *testing.T) {
	for name, grace := range map[string]time.Duration{"in the grace": time.Minute, "in the window": 0} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, server.Options{DrainGrace: grace}, func(t *testing.T, w *world) {
				var clients []*client
				for range 20 {
					clients = append(clients, w.join("ann"))
				}
				draining := w.drain(time.Minute, 0)
				time.Sleep(time.Second)
				if err := w.srv.Close(); err != nil {
					t.Fatal(err)
				}
				for _, c := range clients {
					c.closed(wire.CloseGoingAway, "server closed")
				}
				done := <-draining
				r := done.report
				want(t, "closed by the drain, took", []any{r.Closed, r.Took}, []any{0, time.Second})
				want(t, "sum", r.Moved+r.Forced, r.Connections)
				want(t, "error", done.err, server.ErrClosed)
			})
		})
	}
}

// Publishing goes on after a drain: for who comes back to a state that is saved.
func TestPublishingGoesOnAfterADrain(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		session := w.join("ann").welcome.Session
		<-w.drain(0, 0)
		w.publish("s", `1`)
		seq, err := w.srv.PublishToSession(t.Context(), session, []byte(`1`))
		want(t, "to the session", fmt.Sprint(seq, err), "1 <nil>")
	})
}
