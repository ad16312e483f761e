package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// outage makes the client lose its connection, and lets it back in after f.
func (w *world) outage(f func()) {
	w.t.Helper()
	w.net.Refuse(true)
	w.net.Cut()
	synctest.Wait()
	f()
	w.net.Refuse(false)
	w.live()
}

// counting is a server option: the state of a stream is the number of the last
// event, which is also the event.
func counting(head *atomic.Int64) func(context.Context, string) (server.Snapshot, error) {
	return func(context.Context, string) (server.Snapshot, error) {
		n := head.Load()
		return server.Snapshot{HasSeq: true, Seq: uint64(n), State: fmt.Append(nil, n)}, nil //nolint:gosec // small
	}
}

// A log that no longer covers what was missed must not hand out its tail as if
// that were everything.
func TestATruncatedLogIsNeverPassedOffAsWhole(t *testing.T) {
	for name, c := range map[string]struct {
		log  stream.Limits
		away time.Duration
		want []string
	}{
		"covered":              {stream.Limits{Events: 7}, time.Second, append([]string{"resumed missed=7"}, events(4, 10)...)},
		"more than it holds":   {stream.Limits{Events: 5}, time.Second, []string{"gap snapshot=true", "snapshot 10 10"}},
		"longer than it holds": {stream.Limits{Age: time.Minute}, 2 * time.Minute, []string{"gap snapshot=true", "snapshot 10 10"}},
	} {
		t.Run(name, func(t *testing.T) {
			var head atomic.Int64
			o := server.Options{Log: c.log, Snapshot: counting(&head), SessionLife: time.Hour}
			inWorld(t, o, reconnect.Options{}, func(w *world) {
				w.subscribe("a", w.logging())
				w.live()
				w.publish(1, 3)
				head.Store(3)
				w.taken()
				w.outage(func() {
					w.publish(4, 10)
					head.Store(10)
					time.Sleep(c.away)
				})
				w.publish(11, 12)
				want(t, w.taken(), append(c.want, events(11, 12)...)...)
			})
		})
	}
}

// Being told is optional; being right is not.
func TestAClientWithoutListenersRecoversFromACrash(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		sub := w.subscribe("a", reconnect.Handler{})
		w.live()
		w.publish(1, 10)
		w.crash()
		w.serve(w.net.Listener())
		w.live()
		w.publish(1, 2)
		synctest.Wait()
		epoch := w.client.Status().Streams["a"].Position.Epoch
		if pos, ok := sub.Position(); !ok || pos != (reconnect.Position{Seq: 2, Epoch: epoch}) {
			t.Errorf("position %+v %v, want 2 of epoch %s", pos, ok, epoch)
		}
		if n := w.net.Dials(); n != 2 {
			t.Errorf("%d dials, want one reconnect", n)
		}
	})
}

// The link breaks again and again while what was missed is on its way.
func TestALinkThatDiesInTheMiddleOfTheReplayLosesNothing(t *testing.T) {
	for _, cut := range []uint64{1, 37, 99, 100} {
		t.Run(fmt.Sprint(cut), func(t *testing.T) {
			inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
				var seen []uint64
				w.subscribe("a", reconnect.Handler{Event: func(e reconnect.EventInfo) {
					seen = append(seen, e.Seq)
					if e.Seq == cut {
						w.net.Cut()
					}
				}})
				w.live()
				w.outage(func() {
					for range 100 { // of a size that many frames are needed
						if _, err := w.srv.Publish(t.Context(), "a", fmt.Appendf(nil, `"%08000d"`, 0)); err != nil {
							t.Fatal(err)
						}
					}
				})
				w.net.Cut() // the one that has said welcome
				w.eventually("everything", func() bool { return len(seen) >= 100 })
				time.Sleep(time.Minute)
				for i, seq := range seen {
					if seq != uint64(i)+1 { //nolint:gosec // small
						t.Fatalf("got %d, want 1 to 100", seen)
					}
				}
				if got := w.client.Totals(); len(seen) != 100 || got.Gaps != 0 || got.Sessions < 4 && cut < 99 {
					t.Errorf("%d events, %+v; want 100 after several cuts", len(seen), got)
				}
			})
		})
	}
}

// The source of snapshots fails, or takes its time while the link breaks.
func TestASnapshotThatDoesNotComeIsSaidOrAskedForAgain(t *testing.T) {
	var fail atomic.Bool
	o := server.Options{Snapshot: func(ctx context.Context, _ string) (server.Snapshot, error) {
		if fail.Load() {
			return server.Snapshot{}, errors.New("out of order")
		}
		select {
		case <-time.After(5 * time.Second):
		case <-ctx.Done():
		}
		return server.Snapshot{State: json.RawMessage(`"state"`)}, nil
	}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		w.eventually("resyncing", func() bool { return w.client.Status().Streams["a"].State == reconnect.Resyncing })
		w.publish(1, 1) // held until the snapshot has come
		w.outage(func() { time.Sleep(20 * time.Second) })
		time.Sleep(10 * time.Second)
		want(t, w.taken(), `snapshot 1 "state"`)
		fail.Store(true)
		w.crash()
		w.serve(w.net.Listener())
		w.live()
		time.Sleep(10 * time.Second)
		w.publish(1, 1)
		want(t, w.taken(), "gap snapshot=false", "event 1 1")
	})
}

// A snapshot that is slow, and events before, during and after it: the sum is right.
func TestASnapshotAndTheEventsAroundItAddUp(t *testing.T) {
	var head atomic.Int64
	sumTo := func(n int64) int64 { return n * (n + 1) / 2 }
	o := server.Options{Snapshot: func(context.Context, string) (server.Snapshot, error) {
		n := head.Load()
		time.Sleep(time.Second)
		return server.Snapshot{HasSeq: true, Seq: uint64(n), State: fmt.Append(nil, sumTo(n))}, nil //nolint:gosec // small
	}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		sum := int64(0)
		read := func(text json.RawMessage) (n int64) {
			if err := json.Unmarshal(text, &n); err != nil {
				t.Error(err)
			}
			return n
		}
		var enough atomic.Bool
		done := make(chan struct{})
		go func() {
			defer close(done)
			for n := int64(1); !enough.Load(); n++ {
				w.publish(int(n), int(n))
				head.Store(n)
				time.Sleep(100 * time.Millisecond)
			}
		}()
		time.Sleep(time.Second)
		w.subscribe("a", reconnect.Handler{
			Event:    func(e reconnect.EventInfo) { sum += read(e.Data) },
			Snapshot: func(s reconnect.SnapshotInfo) { sum = read(s.State) },
		})
		time.Sleep(10 * time.Second)
		enough.Store(true)
		<-done
		synctest.Wait()
		if sum != sumTo(head.Load()) || head.Load() < 100 || w.client.Totals().Snapshots != 1 {
			t.Errorf("the sum to %d is %d, want %d; %+v", head.Load(), sum, sumTo(head.Load()), w.client.Totals())
		}
	})
}

// A page is rendered with the state at one position and connects seconds later.
func TestAClientThatStartsFromAPositionGetsWhatCameSince(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		sub := w.subscribe("a", reconnect.Handler{})
		w.live()
		w.publish(1, 10)
		synctest.Wait()
		rendered, _ := sub.Position()
		sub.Unsubscribe()
		w.publish(11, 12)
		if _, err := w.client.Subscribe("a", &rendered, w.logging()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		w.publish(13, 13)
		want(t, w.taken(), append([]string{"resumed missed=2"}, events(11, 13)...)...)
	})
}

// A backlog of thousands, a handler that is slow, and live traffic meanwhile: one
// connection is enough.
func TestALongBacklogIsReplayedInOneConnection(t *testing.T) {
	o := server.Options{Log: stream.Limits{Events: 10_000}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		var seen atomic.Int64
		w.subscribe("a", reconnect.Handler{Event: func(e reconnect.EventInfo) {
			if n := seen.Add(1); n != int64(e.Seq) { //nolint:gosec // small
				t.Errorf("event %d is the %dth", e.Seq, n)
			}
			time.Sleep(5 * time.Millisecond)
		}})
		w.live()
		w.outage(func() { w.publish(1, 5000) })
		for n := 5001; n <= 5500; n++ {
			w.publish(n, n)
			time.Sleep(20 * time.Millisecond)
		}
		w.eventually("everything", func() bool { return seen.Load() == 5500 })
		if got := w.client.Totals(); got.Sessions != 2 || got.Gaps != 0 {
			t.Errorf("got %+v, want one reconnect and no gap", got)
		}
	})
}

// Snapshots around the limits that libraries come with arrive; one above the limit
// of the client is an error with its size, and no loop.
func TestLargeSnapshotsArriveAndTooLargeOnesAreSaid(t *testing.T) {
	var size atomic.Int64
	o := server.Options{Snapshot: func(_ context.Context, stream string) (server.Snapshot, error) {
		n := size.Load()
		if stream == "b" {
			n = 10
		}
		return server.Snapshot{State: json.RawMessage(`"` + strings.Repeat("x", int(n)-2) + `"`)}, nil
	}}
	for _, n := range []int{32767, 32769, 1 << 20, 8 << 20} {
		size.Store(int64(n))
		inWorld(t, o, reconnect.Options{}, func(w *world) {
			var got atomic.Int64
			w.subscribe("a", reconnect.Handler{Snapshot: func(s reconnect.SnapshotInfo) { got.Store(int64(len(s.State))) }})
			w.eventually("the snapshot", func() bool { return got.Load() != 0 })
			if got.Load() != int64(n) || w.net.Dials() != 1 {
				t.Errorf("%d of %d bytes after %d dials", got.Load(), n, w.net.Dials())
			}
		})
	}
	size.Store(2 << 20)
	inWorld(t, o, reconnect.Options{Policy: reconnect.Policy{MaxMessage: 1 << 20}}, func(w *world) {
		w.subscribe("a", w.logging())
		w.subscribe("b", w.logging())
		time.Sleep(10 * time.Minute)
		got := w.taken()
		refused := `reconnect: stream "a": a frame of this stream is larger than the client takes`
		if !slices.Contains(got, refused) || !slices.Contains(got, `snapshot 0 "xxxxxxxx"`) {
			t.Errorf("got %q, want a refused by name and b with its state", got)
		}
		if n := w.net.Dials(); n > 2 || w.client.Status().State != reconnect.Live {
			t.Errorf("%d dials; %+v", n, w.client.Status())
		}
	})
}

// The client has moved on to a new connection, the server still holds the old one:
// its end, long after, must not touch the session.
func TestTheLateEndOfAnOldConnectionChangesNothing(t *testing.T) {
	inWorld(t, server.Options{UserSessions: 1}, reconnect.Options{}, func(w *world) {
		w.subscribe("", w.logging())
		w.live()
		first := w.client.Status().Session
		w.net.Links()[0].Mute(true, true)
		w.client.ReconnectNow() // verified, and found dead
		w.eventually("lost", func() bool { return w.client.Status().State != reconnect.Live })
		w.live()
		for n := 1; n <= 3; n++ {
			time.Sleep(time.Minute) // the old one is gone by now
			s := w.client.Status()
			if s.State != reconnect.Live || s.Session != first || w.srv.Stats().Connections != 1 {
				t.Fatalf("got %+v; %+v", s, w.srv.Stats())
			}
			w.net.Cut()
			synctest.Wait()
			w.live()
		}
		want(t, w.taken(), "resumed missed=0", "resumed missed=0", "resumed missed=0", "resumed missed=0")
	})
}

// A position counts as soon as its handler has returned, not before: whoever
// stores it from elsewhere loses nothing.
func TestAPositionIsThatOfTheLastHandledEvent(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		var sub *reconnect.Subscription
		sub = w.subscribe("a", reconnect.Handler{Event: func(e reconnect.EventInfo) {
			if pos, ok := sub.Position(); !ok || pos.Seq != e.Seq-1 {
				t.Errorf("within event %d: position %+v %v", e.Seq, pos, ok)
			}
		}})
		w.live()
		w.publish(1, 20)
		synctest.Wait()
		if pos, _ := sub.Position(); pos.Seq != 20 {
			t.Errorf("position %+v, want 20", pos)
		}
	})
}
