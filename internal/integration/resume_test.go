package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

func want(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Fatalf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func events(first, last int) []string {
	var lines []string
	for i := first; i <= last; i++ {
		lines = append(lines, fmt.Sprintf("event %d %d", i, i))
	}
	return lines
}

func TestWhatWasMissedIsReplayed(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		sub := w.subscribe("a", w.logging())
		w.live()
		w.publish(1, 3)
		want(t, w.taken(), events(1, 3)...)
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		w.publish(4, 103)
		time.Sleep(30 * time.Second)
		w.net.Refuse(false)
		w.live()
		want(t, w.taken(), append([]string{"resumed missed=100"}, events(4, 103)...)...)
		if pos, ok := sub.Position(); !ok || pos.Seq != 103 {
			t.Errorf("position %+v %v", pos, ok)
		}
		// Nothing missed is said too.
		w.net.Cut()
		synctest.Wait()
		w.live()
		want(t, w.taken(), "resumed missed=0")
	})
}

// Lost before any event came: the position is that of the welcome.
func TestResumeBeforeAnyEvent(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		w.net.Cut()
		synctest.Wait()
		w.publish(1, 3)
		w.live()
		want(t, w.taken(), append([]string{"resumed missed=3"}, events(1, 3)...)...)
	})
}

func TestACrashCostsOneSnapshot(t *testing.T) {
	o := server.Options{Snapshot: func(context.Context, string) (server.Snapshot, error) {
		return server.Snapshot{State: json.RawMessage(`"state"`)}, nil
	}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		want(t, w.taken(), `snapshot 0 "state"`)
		w.publish(1, 2)
		w.taken()
		w.crash()
		time.Sleep(10 * time.Second)
		w.serve(w.net.Listener())
		w.live()
		w.publish(1, 2)
		want(t, w.taken(), "gap snapshot=true", `snapshot 0 "state"`, "event 1 1", "event 2 2")
	})
}

func TestAGapWithoutASnapshotIsSaid(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		w.publish(1, 2)
		w.taken()
		w.crash()
		w.serve(w.net.Listener())
		w.live()
		w.publish(1, 1)
		want(t, w.taken(), "gap snapshot=false", "event 1 1")
	})
}

// Dead and not closed: found out by silence, and nothing waits for the old socket.
func TestAHalfOpenLinkIsReplaced(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		w.publish(1, 1)
		w.taken()
		w.net.Links()[0].Mute(true, true)
		begun := time.Now()
		w.publish(2, 4)
		w.eventually("lost", func() bool { return w.client.Status().State != reconnect.Live })
		if took := time.Since(begun); took > 38*time.Second {
			t.Errorf("noticed after %v, want 2.5 heartbeats", took)
		}
		w.live()
		if got := w.client.Status().LastClose.Code; got != 4408 {
			t.Errorf("last close %d, want 4408", got)
		}
		want(t, w.taken(), append([]string{"resumed missed=3"}, events(2, 4)...)...)
	})
}

// Days of quiet: heartbeats keep the link, and there is only ever one.
func TestAQuietLinkLivesOn(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		time.Sleep(48 * time.Hour)
		w.publish(1, 1)
		want(t, w.taken(), "event 1 1")
		if w.urls != 1 || w.net.Dials() != 1 {
			t.Errorf("%d URLs, %d dials; want one each", w.urls, w.net.Dials())
		}
	})
}

func TestSends(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.live()
		result, err := w.client.Send(w.t.Context(), json.RawMessage(`"one"`))
		if err != nil || string(result) != `"one"` {
			t.Fatalf("got %s, %v", result, err)
		}
		// While down, and cut in between: each takes effect once, in order.
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		answers := make(chan error, 20)
		for i := range 20 {
			go func() {
				_, err := w.client.Send(w.t.Context(), fmt.Append(nil, i))
				answers <- err
			}()
		}
		time.Sleep(20 * time.Second)
		w.net.Refuse(false)
		w.live()
		w.net.Cut()
		for range 20 {
			if err := <-answers; err != nil {
				t.Error(err)
			}
		}
		for i := range 20 {
			if n := w.effects[fmt.Sprint(i)]; n != 1 {
				t.Errorf("message %d took effect %d times", i, n)
			}
		}
		// One that nobody wants any more never reaches the wire.
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(w.t.Context(), time.Second)
		defer cancel()
		var sendErr *reconnect.SendError
		if _, err := w.client.Send(ctx, json.RawMessage(`"late"`)); !errors.As(err, &sendErr) || sendErr.Outcome != reconnect.NotSent {
			t.Errorf("got %v, want not sent", err)
		}
		w.net.Refuse(false)
		w.live()
		time.Sleep(time.Second)
		if n := w.effects[`"late"`]; n != 0 {
			t.Errorf("a message reported as not sent took effect")
		}
	})
}

// The acknowledgement is lost: the resend gets the same answer, and the handler
// has run once.
func TestALostAckRunsTheHandlerOnce(t *testing.T) {
	var runs atomic.Int32
	o := server.Options{OnMessage: func(context.Context, server.Message) (json.RawMessage, error) {
		time.Sleep(2 * time.Second)
		return fmt.Append(nil, runs.Add(1)), nil
	}, Spread: 100 * time.Millisecond}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		w.live()
		time.AfterFunc(time.Second, w.net.Cut)
		result, err := w.client.Send(w.t.Context(), json.RawMessage(`1`))
		if err != nil || string(result) != "1" || runs.Load() != 1 {
			t.Errorf("got %s, %v after %d runs", result, err, runs.Load())
		}
	})
}

func TestARefusedLoginEndsAndComesBack(t *testing.T) {
	var refuse atomic.Bool
	o := server.Options{Authenticate: func(*http.Request) (server.Identity, error) {
		if refuse.Load() {
			return server.Identity{}, server.ErrUnauthorized
		}
		return server.Identity{User: "ada"}, nil
	}}
	c := reconnect.Options{Probe: "http://server/probe"}
	inWorld(t, o, c, func(w *world) {
		w.live()
		refuse.Store(true)
		dials := w.net.Dials()
		w.net.Cut()
		var end *reconnect.EndError
		err := <-w.ran
		if !errors.As(err, &end) || end.Cause != reconnect.CauseUnauthorized {
			t.Fatalf("Run: %v", err)
		}
		if n := w.net.Dials() - dials; n > 4 { // three upgrades and the probe
			t.Errorf("%d connections", n)
		}
		refuse.Store(false)
		go func() { w.ran <- w.client.Run(w.t.Context()) }()
		w.live()
		// inWorld stops the first Run's context: end the second by closing its server.
		w.srv.Disconnect("ada", 1000, "done")
	})
}

// A slow handler stops the reading, so that memory is bounded. A server may drop a
// client that has read nothing for two heartbeats; nothing is lost all the same.
func TestASlowHandlerLosesNothing(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		seen := 0
		w.subscribe("a", reconnect.Handler{Event: func(e reconnect.EventInfo) {
			time.Sleep(time.Second)
			seen++
			if int(e.Seq) != seen {
				t.Errorf("event %d is the %dth", e.Seq, seen)
			}
		}})
		w.live()
		for i := 1; i <= 900; i++ {
			w.publish(i, i)
			time.Sleep(100 * time.Millisecond)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if seen != 900 {
			t.Errorf("%d of 900 events", seen)
		}
	})
}

func TestUnsubscribeFromWithinAHandler(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		var sub *reconnect.Subscription
		h := w.logging()
		h.Event = func(e reconnect.EventInfo) {
			w.note(fmt.Sprintf("event %d", e.Seq))
			if e.Seq == 2 {
				sub.Unsubscribe()
			}
		}
		sub = w.subscribe("a", h)
		w.live()
		w.publish(1, 5)
		want(t, w.taken(), "event 1", "event 2")
		// And again, from now on.
		w.subscribe("a", w.logging())
		synctest.Wait()
		w.publish(6, 6)
		want(t, w.taken(), "event 6 6")
	})
}

// What is under way for a subscription that was given up is not for the next one
// of the same stream.
func TestASubscriptionGetsNothingOfTheOneBefore(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.live()
		var sub *reconnect.Subscription
		for head := uint64(0); head < 10_000; {
			begun := head
			sub = w.subscribe("a", reconnect.Handler{Event: func(e reconnect.EventInfo) {
				if e.Seq <= begun {
					t.Errorf("event %d, but subscribed to when %d had been published", e.Seq, begun)
				}
			}})
			synctest.Wait()
			w.publish(int(head)+1, int(head)+2)
			head += 2
			for range head % 100 { // let them come some of the way
				runtime.Gosched()
			}
			sub.Unsubscribe()
		}
	})
}

func TestTheLogAndTheAccountHoldNoSecret(t *testing.T) {
	var out strings.Builder
	c := reconnect.Options{
		URL:    func(context.Context) (string, error) { return "ws://server/ws?token=hush", nil },
		Header: func(context.Context) (http.Header, error) { return http.Header{"Authorization": {"Bearer hush"}}, nil },
		Logger: slog.New(slog.NewTextHandler(&out, nil)),
	}
	inWorld(t, server.Options{}, c, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		if _, err := w.client.Send(w.t.Context(), json.RawMessage(`"hush"`)); err != nil {
			t.Fatal(err)
		}
		w.net.Refuse(true)
		w.net.Cut()
		time.Sleep(20 * time.Second)
		if n := len(w.client.Pending()); n != 0 {
			t.Errorf("%d pending", n)
		}
		go w.client.Send(w.t.Context(), json.RawMessage(`"hush"`)) //nolint:errcheck // withdrawn below
		synctest.Wait()
		if p := w.client.Pending(); len(p) != 1 || p[0].Written {
			t.Errorf("pending %+v", p)
		}
		w.client.Clear()
		synctest.Wait()
		if n := len(w.client.Pending()); n != 0 {
			t.Errorf("%d pending after Clear", n)
		}
		w.net.Refuse(false)
		w.live()
		said := out.String() + fmt.Sprintf("%+v %+v %+v", w.client.Status(), w.client.History(), w.client.Totals())
		if strings.Contains(said, "hush") {
			t.Errorf("a secret was said: %s", said)
		}
		for _, state := range []string{"connecting", "live", "waiting"} {
			if !strings.Contains(out.String(), "state="+state) {
				t.Errorf("the log lacks %q:\n%s", state, out.String())
			}
		}
		if got := w.client.Totals(); got.Sessions != 2 || got.Accepted != 1 || got.NotSent != 1 {
			t.Errorf("totals %+v", got)
		}
	})
}
