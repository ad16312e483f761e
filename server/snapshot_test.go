package server_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// gate is a snapshot function that waits until it is told what to return.
type gate struct {
	ran    atomic.Int32
	result chan server.Snapshot
	err    chan error
}

func newGate() *gate {
	return &gate{result: make(chan server.Snapshot), err: make(chan error)}
}

func (g *gate) snapshot(ctx context.Context, _ string) (server.Snapshot, error) {
	g.ran.Add(1)
	select {
	case s := <-g.result:
		return s, nil
	case err := <-g.err:
		return server.Snapshot{}, err
	case <-ctx.Done():
		return server.Snapshot{}, ctx.Err()
	}
}

func inGateWorld(t *testing.T, o server.Options, f func(t *testing.T, w *world, g *gate)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		g := newGate()
		o.Snapshot = g.snapshot
		f(t, newWorld(t, o), g)
	})
}

func at(seq uint64, state string) server.Snapshot {
	return server.Snapshot{State: []byte(state), HasSeq: true, Seq: seq}
}

func snapshotOf(c *client, seq uint64, state string) wire.Frame {
	return wire.Snapshot{
		Stream: "s", HasSeq: true, Seq: seq, Epoch: c.welcome.Subs["s"].Epoch, State: wire.Raw(state),
	}
}

func TestSnapshotComesBeforeTheEventsBehindIt(t *testing.T) {
	inGateWorld(t, server.Options{}, func(t *testing.T, w *world, g *gate) {
		w.publish("s", `1`, `2`, `3`)
		c := w.join("ann", `"subs":{"s":{}}`)
		want(t, "resync", c.welcome.Subs["s"].Resync, true)
		w.publish("s", `4`, `5`)
		c.silent()
		g.result <- at(2, `"until 2"`)
		w.publish("s", `6`)
		c.expect(snapshotOf(c, 2, `"until 2"`), event("s", 3, `3`), event("s", 4, `4`), event("s", 5, `5`), event("s", 6, `6`))
		c.silent()
	})
}

func TestSnapshotWithoutAPositionTakesTheHeadFromBefore(t *testing.T) {
	inGateWorld(t, server.Options{}, func(t *testing.T, w *world, g *gate) {
		w.publish("s", `1`)
		c := w.join("ann", `"subs":{"s":{}}`)
		w.publish("s", `2`)
		g.result <- server.Snapshot{State: []byte(`"s"`)}
		c.expect(snapshotOf(c, 1, `"s"`), event("s", 2, `2`))
	})
}

func TestSnapshotIsComputedOnceForManyWhoWait(t *testing.T) {
	inGateWorld(t, server.Options{}, func(t *testing.T, w *world, g *gate) {
		clients := make([]*client, 20)
		for i := range clients {
			clients[i] = w.join("ann", `"subs":{"s":{}}`)
		}
		leaver := w.join("ann", `"subs":{"s":{}}`)
		leaver.link.Cut()
		g.result <- at(0, `"s"`)
		for _, c := range clients {
			c.expect(snapshotOf(c, 0, `"s"`))
		}
		want(t, "runs", g.ran.Load(), 1)
	})
}

func TestSnapshotsInFlightAreBounded(t *testing.T) {
	inGateWorld(t, server.Options{Snapshots: 2}, func(t *testing.T, w *world, g *gate) {
		var subs []string
		for i := range 5 {
			subs = append(subs, fmt.Sprintf(`"s%d":{}`, i))
		}
		c := w.join("ann", `"subs":{`+strings.Join(subs, ",")+`}`)
		for i := range 5 {
			synctest.Wait()
			want(t, "running", g.ran.Load(), int32(min(i+2, 5)))
			g.result <- at(0, `1`)
		}
		for range 5 {
			want(t, "frame", c.next().Type(), "snapshot")
		}
	})
}

func TestSnapshotThatFailsBecomesAReset(t *testing.T) {
	for name, tt := range map[string]struct {
		result server.Snapshot
		err    error
		reason string
	}{
		"error":       {err: errors.New("secret"), reason: "the snapshot failed"},
		"refusal":     {err: &server.Refusal{Reason: "rebuilding"}, reason: "rebuilding"},
		"not JSON":    {result: at(1, `{`), reason: "the snapshot failed"},
		"nothing":     {result: server.Snapshot{}, reason: "the snapshot failed"},
		"too large":   {result: at(1, `"`+strings.Repeat("x", 16<<20)+`"`), reason: "the snapshot is too large: 167772"},
		"no snapshot": {err: server.ErrNoSnapshot, reason: "the log no longer reaches back to the position"},
	} {
		t.Run(name, func(t *testing.T) {
			inGateWorld(t, server.Options{Log: stream.Limits{Events: 1}}, func(t *testing.T, w *world, g *gate) {
				w.publish("s", `1`, `2`)
				epoch := func() string {
					c := w.dial("ann")
					c.send(`{"t":"resume","v":1,"subs":{"s":{}}}`)
					g.err <- server.ErrNoSnapshot
					c.welcomed()
					return c.welcome.Subs["s"].Epoch
				}()
				c := w.join("ann", wanted("s", 0, epoch))
				want(t, "resync", c.welcome.Subs["s"].Resync, true)
				if tt.err != nil {
					g.err <- tt.err
				} else {
					g.result <- tt.result
				}
				reset, ok := c.next().(wire.Reset)
				if !ok || !strings.HasPrefix(reset.Reason, tt.reason) {
					t.Fatalf("reset %+v, want reason %q", reset, tt.reason)
				}
				reset.Reason = ""
				want(t, "reset", reset, wire.Reset{Stream: "s", Seq: 2, Epoch: epoch, First: 1})
				w.publish("s", `3`)
				c.expect(event("s", 3, `3`))
			})
		})
	}
}

func TestSnapshotOvertakenByItsLog(t *testing.T) {
	inGateWorld(t, server.Options{Log: stream.Limits{Events: 2}}, func(t *testing.T, w *world, g *gate) {
		c := w.join("ann", `"subs":{"s":{}}`)
		overtake := func() {
			synctest.Wait()
			w.publish("s", `0`, `0`, `0`)
			g.result <- server.Snapshot{State: []byte(`1`)}
		}
		overtake()
		c.silent()
		overtake()
		c.expect(wire.Reset{
			Stream: "s", Seq: 6, Epoch: c.welcome.Subs["s"].Epoch, First: 4, Reason: "the snapshot was overtaken by its log twice",
		})
		want(t, "runs", g.ran.Load(), 2)
		w.publish("s", `7`)
		c.expect(event("s", 7, `7`))

		c = w.join("ann", `"subs":{"s":{}}`)
		overtake()
		synctest.Wait()
		g.result <- server.Snapshot{State: []byte(`1`)}
		c.expect(snapshotOf(c, 10, `1`))
	})
}

// The application's numbers can outlive the server's: a restart, or a stream that
// nobody used.
func TestSnapshotOfAnOlderNumberingPrecedesAllEvents(t *testing.T) {
	inGateWorld(t, server.Options{}, func(t *testing.T, w *world, g *gate) {
		w.publish("s", `1`, `2`)
		c := w.join("ann", `"subs":{"s":{}}`)
		g.result <- at(57, `"old"`)
		c.expect(snapshotOf(c, 0, `"old"`), event("s", 1, `1`), event("s", 2, `2`))
	})
}

func TestSnapshotThatTakesTooLong(t *testing.T) {
	inWorld(t, server.Options{
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			time.Sleep(time.Hour) // ignores its context
			return server.Snapshot{}, errors.New("far too late")
		},
	}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		start := time.Now()
		c.expect(wire.Reset{Stream: "s", Epoch: c.welcome.Subs["s"].Epoch, Reason: "the snapshot took too long"})
		want(t, "time of the reset", time.Since(start), 29*time.Second) // the welcome waited one
	})
}

func TestStreamWithoutASnapshotStartsFromNow(t *testing.T) {
	inWorld(t, server.Options{
		Snapshot: func(_ context.Context, name string) (server.Snapshot, error) {
			if name == "s" {
				return server.Snapshot{}, server.ErrNoSnapshot
			}
			return at(0, `1`), nil
		},
	}, func(t *testing.T, w *world) {
		w.publish("s", `1`)
		for range 2 {
			c := w.join("ann", `"subs":{"s":{},"t":{}}`)
			want(t, "s", c.welcome.Subs["s"], wire.Answer{Seq: 1, Epoch: c.welcome.Subs["s"].Epoch})
			want(t, "t: resync", c.welcome.Subs["t"].Resync, true)
			want(t, "frame", c.next().Type(), "snapshot")
			c.silent()
		}
		want(t, "runs", w.srv.Stats().Computed, 1+2)
	})
}

func TestSnapshotOfTheOwnStream(t *testing.T) {
	inWorld(t, server.Options{
		SessionSnapshot: func(_ context.Context, id server.Identity) (server.Snapshot, error) {
			if id.User == "" {
				return server.Snapshot{}, server.ErrNoSnapshot
			}
			return server.Snapshot{State: fmt.Appendf(nil, "%q", id.User)}, nil
		},
	}, func(t *testing.T, w *world) {
		for _, user := range []string{"ann", "bob"} {
			c := w.join(user)
			want(t, "resync", c.welcome.Own.Resync, true)
			c.expect(wire.Snapshot{HasSeq: true, Epoch: c.welcome.Own.Epoch, State: fmt.Appendf(nil, "%q", user)})
			c.send(`{"t":"sub"}`)
			c.expect(wire.Subbed{Answer: c.welcome.Own},
				wire.Snapshot{HasSeq: true, Epoch: c.welcome.Own.Epoch, State: fmt.Appendf(nil, "%q", user)})
			c.send(`{"t":"sub","after":0,"epoch":%q}`, c.welcome.Own.Epoch)
			c.expect(wire.Subbed{Answer: wire.Answer{Epoch: c.welcome.Own.Epoch}})
			c.silent()
		}
	})
}

// A hub has one cursor for several tabs: one asks from a snapshot, another from a
// position that is covered. Both get what they were told.
func TestSubsMeetASnapshotUnderWay(t *testing.T) {
	inGateWorld(t, server.Options{}, func(t *testing.T, w *world, g *gate) {
		w.publish("s", `1`, `2`, `3`)
		c := w.join("ann", `"subs":{"s":{}}`)
		epoch := c.welcome.Subs["s"].Epoch
		c.send(`{"t":"sub","stream":"s","after":1,"epoch":%q}`, epoch)
		c.send(`{"t":"sub","stream":"s"}`)
		c.expect(
			wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 3, Epoch: epoch}},
			wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 3, Epoch: epoch, Resync: true}})
		c.silent() // no event between resync and its snapshot
		g.result <- at(3, `"s"`)
		c.expect(snapshotOf(c, 3, `"s"`), event("s", 2, `2`), event("s", 3, `3`))
		c.silent()

		c.send(`{"t":"sub","stream":"s"}`)
		c.next()
		c.send(`{"t":"unsub","stream":"s"}`)
		synctest.Wait()
		g.result <- at(3, `"s"`)
		c.silent()
	})
}

func TestSlowReaderFallsOffTheLogAndGetsASnapshot(t *testing.T) {
	for name, snapshot := range map[string]func(context.Context, string) (server.Snapshot, error){
		"with a snapshot": func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{State: []byte(`"state"`)}, nil
		},
		"without": nil,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, server.Options{Snapshot: snapshot, Log: stream.Limits{Events: 10}}, func(t *testing.T, w *world) {
				c := w.dialSilently("ann")
				c.send(`{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`)
				synctest.Wait()
				data := `"` + strings.Repeat("x", 10_000) + `"`
				const events = 100
				for range events {
					w.publish("s", data)
					synctest.Wait()
				}
				c.listen()
				c.welcomed()
				position, gaps := uint64(0), 0
				for position < events {
					switch f := c.next().(type) {
					case wire.Snapshot:
						position = f.Seq
					case wire.Event:
						want(t, "event", f.Seq, position+1)
						position = f.Seq
					case wire.Events:
						want(t, "events", f.From, position+1)
						position += uint64(len(f.Data))
					case wire.Reset:
						want(t, "a snapshot follows", f.Snapshot, snapshot != nil)
						gaps++
						if !f.Snapshot {
							position = f.Seq
						}
					default:
						t.Fatalf("frame %T, %v", f, c.err)
					}
				}
				want(t, "gaps", gaps, 1)
				c.silent()
			})
		})
	}
}
