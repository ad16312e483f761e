package server_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// fromTheStart asks for all there is of stream s.
func (w *world) fromTheStart() string { return `"s":{"after":0,"epoch":"` + w.epoch("s") + `"}` }

// backlog is a number of events that is more than a peer that reads nothing takes in.
const backlog = 50

func (w *world) publishBacklog() {
	w.t.Helper()
	for range backlog {
		w.publish("s", `"`+long(10_000)+`"`)
	}
}

// stall joins and reads nothing: its turn to replay ends in a write that blocks.
func (w *world) stall(subs string) *client {
	w.t.Helper()
	c := w.dialSilently("ann")
	c.send(`{"t":"resume","v":1,"batch":true,"subs":{%s}}`, subs)
	synctest.Wait()
	return c
}

// readBacklog reads all of it, in order.
func (c *client) readBacklog() {
	c.t.Helper()
	for at := uint64(0); at < backlog; {
		switch f := c.next().(type) {
		case wire.Event:
			if f.Stream == "s" {
				want(c.t, "number", f.Seq, at+1)
				at = f.Seq
			}
		case wire.Events:
			if f.Stream == "s" {
				want(c.t, "number", f.From, at+1)
				at += uint64(len(f.Data))
			}
		case nil:
			c.t.Fatalf("ended at %d: %v", at, c.err)
		}
	}
}

func TestWhoWaitsToBeReplayedGetsWhatIsLiveAndKeepsItsPlace(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Replays: 1}}, func(t *testing.T, w *world) {
		w.publish("live", "0")
		w.publishBacklog()
		subs := w.fromTheStart()
		first := w.stall(subs)
		second := w.stall(subs + `,"live":{}`)
		third := w.join("ann", `"batch":true`, `"subs":{`+subs+`,"live":{}}`)
		// What is live comes at once, and leaves no room for a batch in the second's
		// connection, which reads nothing either.
		before := w.srv.Stats().Events
		w.publish("live", `"`+long(60_000)+`"`)
		third.expect(event("live", 2, `"`+long(60_000)+`"`))
		synctest.Wait()
		want(t, "live events written", w.srv.Stats().Events-before, 2)

		_ = first.ws.CloseNow()
		third.silent() // the turn is the second's
		_ = second.ws.CloseNow()
		third.readBacklog()
	})
}

func TestAStalledReaderHoldsUpReplaysForASecondAtMost(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Replays: 2}}, func(t *testing.T, w *world) {
		w.publishBacklog()
		subs := w.fromTheStart()
		slow := []*client{w.stall(subs), w.stall(subs)}
		c := w.join("ann", `"batch":true`, `"subs":{`+subs+`}`)
		begun := time.Now()
		c.readBacklog()
		if took := time.Since(begun); took != time.Second {
			t.Errorf("all was there after %v, want 1s", took)
		}
		for _, s := range slow {
			s.listen()
			s.welcomed()
			s.readBacklog()
		}
	})
}

func TestATurnToReplayIsNotKeptWhileThereIsNothingToWrite(t *testing.T) {
	for name, frame := range map[string]string{
		"waits for a snapshot": `{"t":"sub","stream":"s","after":1,"epoch":"another"}`,
		"follows it no longer": `{"t":"unsub","stream":"s"}`,
	} {
		t.Run(name, func(t *testing.T) {
			o := server.Options{
				Admission: server.Admission{Replays: 1},
				Snapshot: func(ctx context.Context, _ string) (server.Snapshot, error) {
					<-ctx.Done()
					return server.Snapshot{}, ctx.Err()
				},
			}
			inWorld(t, o, func(t *testing.T, w *world) {
				w.publishBacklog()
				subs := w.fromTheStart()
				c := w.stall(subs)
				c.send("%s", frame)
				synctest.Wait()
				c.listen()
				synctest.Wait()
				begun := time.Now()
				w.join("ann", `"batch":true`, `"subs":{`+subs+`}`).readBacklog()
				want(t, "waited", time.Since(begun), 0)
			})
		})
	}
}
