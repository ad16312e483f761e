package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

func inTrouble(t *testing.T, o server.Options, f func(t *testing.T, w *world, st *trouble)) {
	t.Helper()
	st := &trouble{}
	o.Store = st.open
	inWorld(t, o, func(t *testing.T, w *world) {
		t.Helper()
		f(t, w, st)
	})
}

func TestAStoreThatIsAwayRefusesWhatIsNewAndKeepsWhatIs(t *testing.T) {
	reflect := func(_ context.Context, m server.Message) (json.RawMessage, error) { return m.Body, nil }
	inTrouble(t, server.Options{OnMessage: reflect}, func(t *testing.T, w *world, st *trouble) {
		c := w.join("ann", `"subs":{"s":{}}`)
		st.goAway()
		time.Sleep(time.Second)
		want(t, "ready", w.get(http.MethodGet, "/ready").StatusCode, http.StatusServiceUnavailable)
		w.dial("bob").refused(t)
		if _, err := w.srv.Publish(t.Context(), "s", []byte(`1`)); !errors.Is(err, errAway) {
			t.Errorf("Publish: %v", err)
		}
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`1`)); !errors.Is(err, errAway) {
			t.Errorf("PublishTo: %v", err)
		}
		if _, err := w.srv.PublishToSession(t.Context(), c.welcome.Session, []byte(`1`)); !errors.Is(err, errAway) {
			t.Errorf("PublishToSession: %v", err)
		}
		c.send(`{"t":"sub","stream":"other"}`)
		c.expect(wire.Subbed{Stream: "other", Answer: wire.Answer{Error: wire.ErrBusy, Retry: 5000}})
		c.send(`{"t":"msg","id":"m","body":1}`)
		c.expect(wire.Nack{ID: "m", Code: wire.NackBusy, Reason: "the store does not answer", HasRetry: true, Retry: 5000})

		time.Sleep(20 * time.Second) // virtual
		stale := int64(0)
		for stale == 0 {
			if hb, ok := (<-c.frames).(wire.Heartbeat); ok {
				stale = hb.Stale
			}
		}
		if stale < 5000 || stale > 21_000 {
			t.Errorf("a heartbeat says that the store was silent for %d ms", stale)
		}
		want(t, "stale seconds", w.collect()["store_stale_seconds"], 21.0)

		st.comeBack()
		want(t, "ready", w.get(http.MethodGet, "/ready").StatusCode, http.StatusOK)
		c.send(`{"t":"msg","id":"m","body":1}`)
		c.expect(wire.Ack{ID: "m", Result: wire.Raw(`1`)})
		w.publish("s", `1`)
		c.expect(event("s", 1, `1`))
		w.join("bob")
		want(t, "denied", w.srv.Stats().Denied["store"], uint64(1))
	})
}

// refused resumes and expects to be told to come back.
func (c *client) refused(t *testing.T) {
	t.Helper()
	c.send(`{"t":"resume","v":1,"subs":{"s":{}}}`)
	c.closed(wire.CloseTryLater, "retry=")
}

func TestAStoreThatGoesAwayDuringAResume(t *testing.T) {
	st := &trouble{}
	var asked atomic.Int64
	authorize := func(context.Context, server.Identity, string) error {
		if asked.Add(1) > 1 {
			st.goAway() // after the session was asked about, before it is taken over
		}
		return nil
	}
	inWorld(t, server.Options{Store: st.open, Authorize: authorize}, func(t *testing.T, w *world) {
		old := w.join("ann", `"subs":{"s":{}}`)
		c := w.dial("ann")
		c.send(`{"t":"resume","v":1,"session":%q,"subs":{"s":{},"other":{}}}`, old.welcome.Session)
		c.closed(wire.CloseTryLater, "retry=")
		old.silent()
		st.comeBack()
		w.publish("s", `1`)
		old.expect(event("s", 1, `1`))
	})
}

func TestANumberingThatStartsAnewIsAGapForAll(t *testing.T) {
	none := func(context.Context, string) (server.Snapshot, error) {
		return server.Snapshot{}, server.ErrNoSnapshot
	}
	inTrouble(t, server.Options{Snapshot: none}, func(t *testing.T, w *world, st *trouble) {
		caughtUp := w.join("ann", `"subs":{"s":{}}`)
		epoch := caughtUp.welcome.Subs["s"].Epoch
		w.publish("s", `1`, `2`)
		caughtUp.expect(event("s", 1, `1`), event("s", 2, `2`))
		st.number()
		caughtUp.expect(wire.Reset{Stream: "s", Epoch: "anew", Reason: "the stream's numbering has started anew"})
		w.publish("s", `3`)
		caughtUp.expect(event("s", 1, `3`))

		// One with a position of before, and one with one of now.
		c := w.join("bob", fmt.Sprintf(`"subs":{"s":{"after":1,"epoch":%q}}`, epoch))
		want(t, "answer", c.welcome.Subs["s"], wire.Answer{Seq: 1, Epoch: "anew", First: 0, Resync: true})
		c.expect(wire.Reset{Stream: "s", Seq: 1, Epoch: "anew", Reason: "the stream's numbering has started anew"})
		c = w.join("bob", `"subs":{"s":{"after":0,"epoch":"anew"}}`)
		want(t, "answer", c.welcome.Subs["s"], wire.Answer{Seq: 1, Epoch: "anew"})
		c.expect(event("s", 1, `3`))
		c.silent()
	})
}

func TestALogThatIsReadAnewIsNoGap(t *testing.T) {
	inTrouble(t, server.Options{}, func(t *testing.T, w *world, st *trouble) {
		c := w.join("ann", `"subs":{"s":{}}`)
		w.publish("s", `1`, `2`)
		c.expect(event("s", 1, `1`), event("s", 2, `2`))
		if err := st.reread(); err != nil {
			t.Fatal(err)
		}
		w.publish("s", `3`)
		c.expect(event("s", 3, `3`))
		c.silent()
	})
}

// Until a snapshot function was run nothing is known of the stream's snapshots.
func TestAGapIsToldOnceThoughNothingIsKnownOfSnapshots(t *testing.T) {
	const gap = "the stream's numbering has started anew"
	for name, tt := range map[string]struct {
		snapshot server.Snapshot
		err      error
		want     []wire.Frame
	}{
		"none": {err: server.ErrNoSnapshot, want: []wire.Frame{
			wire.Reset{Stream: "s", Epoch: "anew", Reason: gap},
		}},
		"one": {snapshot: server.Snapshot{State: json.RawMessage(`1`)}, want: []wire.Frame{
			wire.Reset{Stream: "s", Epoch: "anew", Snapshot: true, Reason: gap},
			wire.Snapshot{Stream: "s", HasSeq: true, Epoch: "anew", State: wire.Raw(`1`)},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			snapshot := func(context.Context, string) (server.Snapshot, error) { return tt.snapshot, tt.err }
			inTrouble(t, server.Options{Snapshot: snapshot}, func(t *testing.T, w *world, st *trouble) {
				feed, err := st.Store.Follow(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				defer feed.Close()
				c := w.join("ann", fmt.Sprintf(`"subs":{"s":{"after":0,"epoch":%q}}`, feed.Log().Epoch()))
				st.number()
				c.expect(tt.want...)
				w.publish("s", `2`)
				c.expect(event("s", 1, `2`))
				c.silent()
			})
		})
	}
}

func TestASnapshotOfTheNumberingBeforeIsNotSent(t *testing.T) {
	var ask chan struct{}
	var answer chan string
	snapshot := func(context.Context, string) (server.Snapshot, error) {
		ask <- struct{}{}
		return server.Snapshot{State: json.RawMessage(<-answer)}, nil
	}
	inTrouble(t, server.Options{Snapshot: snapshot}, func(t *testing.T, w *world, st *trouble) {
		ask, answer = make(chan struct{}), make(chan string) // of this bubble
		c := w.dial("ann")
		c.send(`{"t":"resume","v":1,"subs":{"s":{}}}`)
		<-ask
		c.until("welcome")
		st.number()
		answer <- `"before"`
		<-ask
		answer <- `"after"`
		c.expect(wire.Snapshot{Stream: "s", HasSeq: true, Epoch: "anew", State: wire.Raw(`"after"`)})
		w.publish("s", `1`)
		c.expect(event("s", 1, `1`))
		c.silent()
	})
}

// A snapshot is owed to a question, and then another one was answered from where the
// connection stands: it does not wait, and would take the snapshot for that of others.
func TestWhatHappensToALogWhileASnapshotIsOwed(t *testing.T) {
	snapshot := func(epoch string) wire.Frame {
		return wire.Snapshot{Stream: "s", HasSeq: true, Seq: 2, Epoch: epoch, State: wire.Raw(`1`)}
	}
	for name, tt := range map[string]struct {
		happens func(st *trouble) error
		want    func(epoch string) []wire.Frame
	}{
		"its numbering starts anew": {
			func(st *trouble) error { st.number(); return nil },
			func(string) []wire.Frame {
				return []wire.Frame{
					wire.Reset{Stream: "s", Seq: 2, Epoch: "anew", Snapshot: true, Reason: "the stream's numbering has started anew"},
					snapshot("anew"), event("s", 3, `5`),
				}
			},
		},
		"it is read anew": {
			(*trouble).reread,
			func(epoch string) []wire.Frame {
				return []wire.Frame{
					snapshot(epoch), event("s", 2, `2`), event("s", 3, `3`), event("s", 4, `4`), event("s", 5, `5`),
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			g := (*gate)(nil)
			answer := func(ctx context.Context, name string) (server.Snapshot, error) { return g.snapshot(ctx, name) }
			inTrouble(t, server.Options{Snapshot: answer}, func(t *testing.T, w *world, st *trouble) {
				g = newGate() // of this bubble
				c := w.join("ann", `"subs":{"s":{"after":9,"epoch":"gone"}}`)
				epoch := c.welcome.Subs["s"].Epoch
				w.publish("s", `1`, `2`)
				c.send(`{"t":"sub","stream":"s","after":1,"epoch":%q}`, epoch)
				c.expect(wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 2, Epoch: epoch}})
				if err := tt.happens(st); err != nil {
					t.Fatal(err)
				}
				w.publish("s", `3`, `4`)
				g.result <- at(2, `1`)
				synctest.Wait()
				if g.ran.Load() > 1 { // that was one of the numbering before
					g.result <- at(2, `1`)
					synctest.Wait()
				}
				w.publish("s", `5`)
				c.expect(tt.want(epoch)...)
				c.silent()
			})
		})
	}
}

func TestAPositionThatIsNotKnownHereIsLookedUp(t *testing.T) {
	inTrouble(t, server.Options{}, func(t *testing.T, w *world, st *trouble) {
		c := w.join("ann", `"subs":{"s":{}}`)
		epoch := c.welcome.Subs["s"].Epoch
		st.hold("s", `1`, `2`, `3`)
		c = w.join("bob", fmt.Sprintf(`"subs":{"s":{"after":2,"epoch":%q}}`, epoch))
		want(t, "answer", c.welcome.Subs["s"], wire.Answer{Seq: 3, Epoch: epoch})
		c.expect(event("s", 3, `3`))

		before := st.syncs.Load()
		st.hold("s", `4`)
		d := w.join("dan")
		d.send(`{"t":"sub","stream":"s","after":4,"epoch":%q}`, epoch)
		d.expect(wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 4, Epoch: epoch}})
		c.expect(event("s", 4, `4`))
		w.join("eve", fmt.Sprintf(`"subs":{"s":{"after":4,"epoch":%q}}`, epoch))
		want(t, "times it was asked", st.syncs.Load()-before, 1)

		// Beyond the store's own head it is a gap, and no other follower notices.
		c.send(`{"t":"sub","stream":"s","after":9,"epoch":%q}`, epoch)
		c.expect(wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 4, Epoch: epoch, Resync: true}})
		c.until("reset")
	})
}

func TestASnapshotOfWhatHasNotArrivedKeepsItsPosition(t *testing.T) {
	snapshot := func(context.Context, string) (server.Snapshot, error) {
		return server.Snapshot{State: json.RawMessage(`"two"`), HasSeq: true, Seq: 2}, nil
	}
	inTrouble(t, server.Options{Snapshot: snapshot}, func(t *testing.T, w *world, st *trouble) {
		w.join("ann", `"subs":{"s":{"after":0,"epoch":"none"}}`).until("snapshot")
		st.hold("s", `1`, `2`, `3`)
		c := w.join("bob", `"subs":{"s":{}}`)
		c.expect(wire.Snapshot{
			Stream: "s", HasSeq: true, Seq: 2, Epoch: c.welcome.Subs["s"].Epoch, State: wire.Raw(`"two"`),
		}, event("s", 3, `3`))
	})
}

func TestASessionTakenOverElsewhereIsFencedHere(t *testing.T) {
	inTrouble(t, server.Options{}, func(t *testing.T, w *world, st *trouble) {
		c := w.join("ann")
		st.fence(c.welcome.Session, 1<<50)
		c.closed(wire.CloseNotNewest, fmt.Sprintf("gen=%d", 1<<50))
		want(t, "superseded", w.srv.Stats().Superseded, uint64(1))
		synctest.Wait()
		want(t, "live", w.srv.Stats().Live, 0)
	})
}

func TestAStoreOfItsOwnAndAStateFileExcludeEachOther(t *testing.T) {
	st := &trouble{}
	_, err := server.New(server.Options{Store: st.open, StateFile: "state"})
	wantError(t, err, "Options.StateFile")
	_, err = server.New(server.Options{Store: func(server.StoreOptions) (server.Store, error) { return nil, errAway }})
	wantError(t, err, "Options.Store: connection refused")
}
