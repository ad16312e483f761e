package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// wanted writes the field subs for one stream at a position.
func wanted(name string, after uint64, epoch string) string {
	return fmt.Sprintf(`"subs":{%q:{"after":%d,"epoch":%q}}`, name, after, epoch)
}

func TestPositionBeforeAnyEventIsOne(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		for name, before := range map[string]int{"empty": 0, "at41": 41} {
			for range before {
				w.publish(name, `0`)
			}
			c := w.join("ann", fmt.Sprintf(`"subs":{%q:{}}`, name))
			head := uint64(before)
			answer := c.welcome.Subs[name]
			want(t, "seq and resync", []any{answer.Seq, answer.Resync}, []any{head, false})
			c.link.Cut()
			synctest.Wait()
			w.publish(name, `1`, `2`, `3`)
			c = w.join("ann", wanted(name, head, answer.Epoch), `"batch":true`)
			want(t, "resync", c.welcome.Subs[name].Resync, false)
			c.expect(wire.Events{Stream: name, From: head + 1, Data: []wire.Raw{wire.Raw(`1`), wire.Raw(`2`), wire.Raw(`3`)}})
		}
	})
}

func TestGapsAreSaid(t *testing.T) {
	inWorld(t, server.Options{Log: stream.Limits{Events: 5}}, func(t *testing.T, w *world) {
		w.publish("s", `1`, `2`, `3`, `4`, `5`, `6`, `7`)
		epoch := w.join("ann", `"subs":{"s":{}}`).welcome.Subs["s"].Epoch
		for _, tt := range []struct {
			name, epoch string
			after       uint64
			reason      string
		}{
			{"before the log", epoch, 1, "the log no longer reaches back to the position"},
			{"beyond the head", epoch, 8, "the position is beyond the stream's head"},
			{"other epoch", "other", 7, "the stream's numbering has started anew"},
			{"no epoch", "", 7, "the stream's numbering has started anew"},
		} {
			t.Logf("%s", tt.name)
			c := w.join("ann", wanted("s", tt.after, tt.epoch))
			want(t, "answer", c.welcome.Subs["s"], wire.Answer{Seq: 7, Epoch: epoch, First: 2, Resync: true})
			c.expect(wire.Reset{Stream: "s", Seq: 7, Epoch: epoch, First: 2, Reason: tt.reason})
			c.silent()
		}
		c := w.join("ann", wanted("s", 2, epoch))
		c.expect(event("s", 3, `3`), event("s", 4, `4`), event("s", 5, `5`), event("s", 6, `6`), event("s", 7, `7`))
	})
}

func TestHeadOutlivesItsEvents(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.publish("s", `1`)
		epoch := w.join("ann", `"subs":{"s":{}}`).welcome.Subs["s"].Epoch
		time.Sleep(6 * time.Minute)
		c := w.join("ann", wanted("s", 1, epoch))
		want(t, "up to date", c.welcome.Subs["s"], wire.Answer{Seq: 1, Epoch: epoch, First: 1})
		c = w.join("ann", wanted("s", 0, epoch))
		want(t, "behind", c.welcome.Subs["s"].Resync, true)
	})
}

func TestCutInTheMiddleOfTheReplay(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		var want []wire.Frame
		for i := range 100 {
			w.publish("s", fmt.Sprint(i+1))
			want = append(want, event("s", uint64(i+1), fmt.Sprint(i+1)))
		}
		epoch := w.join("ann", `"subs":{"s":{}}`).welcome.Subs["s"].Epoch
		for _, cut := range []uint64{0, 1, 37, 99, 100} {
			c := w.join("ann", wanted("s", 0, epoch))
			c.expect(want[:cut]...)
			c.link.Cut()
			c = w.join("ann", wanted("s", cut, epoch))
			c.expect(want[cut:]...)
			c.silent()
		}
	})
}

func TestSubNeverMovesForward(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.publish("s", `1`, `2`, `3`)
		c := w.join("ann", `"subs":{"s":{}}`)
		epoch := c.welcome.Subs["s"].Epoch
		answer := wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 3, Epoch: epoch}}
		c.send(`{"t":"sub","stream":"s","after":1,"epoch":%q}`, epoch)
		c.expect(answer, event("s", 2, `2`), event("s", 3, `3`))
		c.send(`{"t":"sub","stream":"s","after":3,"epoch":%q}`, epoch)
		c.send(`{"t":"sub","stream":"s"}`)
		c.expect(answer, answer)
		w.publish("s", `4`)
		c.expect(event("s", 4, `4`))
		c.send(`{"t":"unsub","stream":"s"}`)
		c.send(`{"t":"unsub","stream":"never followed"}`) // bad name
		c.closed(wire.CloseBadRequest, "unsub: stream:")
	})
}

func TestUnsubEndsTheEvents(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{},"other":{}}`)
		epoch := c.welcome.Subs["s"].Epoch
		c.send(`{"t":"unsub","stream":"s"}`)
		c.send(`{"t":"unsub","stream":"s"}`)
		c.send(`{"t":"sub","stream":"third"}`)
		c.next()
		w.publish("s", `1`)
		w.publish("other", `1`)
		c.expect(event("other", 1, `1`))
		c.send(`{"t":"sub","stream":"s","after":0,"epoch":%q}`, epoch)
		c.expect(wire.Subbed{Stream: "s", Answer: wire.Answer{Seq: 1, Epoch: epoch}}, event("s", 1, `1`))
	})
}

func TestOneForbiddenStreamLeavesTheOthers(t *testing.T) {
	allowed := map[string]bool{"a": true, "b": true}
	inWorld(t, server.Options{
		Authorize: func(_ context.Context, id server.Identity, name string) error {
			switch {
			case name == "later":
				return &server.Refusal{Retry: 1500 * time.Millisecond}
			case name == "panics":
				panic("in Authorize")
			case name == "slow":
				time.Sleep(11 * time.Second)
				return errors.New("too late")
			case id.User == "ann" && allowed[name]:
				return nil
			}
			return errors.New("no")
		},
	}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"a":{},"b":{},"c":{},"later":{}}`)
		want(t, "c", c.welcome.Subs["c"], wire.Answer{Error: "forbidden"})
		want(t, "later", c.welcome.Subs["later"], wire.Answer{Error: "busy", Retry: 1500})
		want(t, "streams created", w.srv.Stats().Streams, 2)
		w.publish("a", `1`)
		w.publish("b", `1`)
		w.publish("c", `1`)
		c.expect(event("a", 1, `1`))
		c.expect(event("b", 1, `1`))

		// Access to b is lost: the next time it is asked for, it ends.
		allowed["b"] = false
		epoch := c.welcome.Subs["b"].Epoch
		c.send(`{"t":"sub","stream":"b","after":1,"epoch":%q}`, epoch)
		c.expect(wire.Subbed{Stream: "b", Answer: wire.Answer{Error: "forbidden"}})
		w.publish("b", `2`)
		c.silent()
		c.send(`{"t":"sub","stream":"slow"}`)
		c.send(`{"t":"sub","stream":"panics"}`)
		c.send(`{"t":"ping","n":1}`) // answered meanwhile
		c.expect(wire.Pong{N: 1})
		c.expect(wire.Subbed{Stream: "slow", Answer: wire.Answer{Error: "busy", Retry: 5000}})
		c.expect(wire.Subbed{Stream: "panics", Answer: wire.Answer{Error: "forbidden"}})

		bob := w.join("bob", wanted("a", 0, c.welcome.Subs["a"].Epoch))
		want(t, "bob", bob.welcome.Subs["a"], wire.Answer{Error: "forbidden"})
	})
}

func TestStreamsOfAConnectionAreBounded(t *testing.T) {
	inWorld(t, server.Options{Follows: 2, Streams: 4}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"d":{},"b":{},"c":{},"a":{}}`)
		for name, want := range map[string]string{"a": "", "b": "", "c": "limit", "d": "limit"} {
			if got := c.welcome.Subs[name].Error; got != want {
				t.Errorf("%s: error %q, want %q", name, got, want)
			}
		}
		limit := func(name string) wire.Frame {
			return wire.Subbed{Stream: name, Answer: wire.Answer{Error: "limit"}}
		}
		c.send(`{"t":"sub","stream":"c"}`)
		c.expect(limit("c"))
		c.send(`{"t":"unsub","stream":"a"}`)
		c.send(`{"t":"sub","stream":"c"}`)
		c.next()
		// Of the node: a, b, c are there, d may be created, e not, and publishing is free.
		other := w.join("bob", `"subs":{"d":{},"e":{}}`)
		want(t, "d", other.welcome.Subs["d"].Error, "")
		want(t, "e", other.welcome.Subs["e"].Error, "limit")
		w.publish("f", `1`)
	})
}

func TestUnusedStreamComesBackWithANewEpoch(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.publish("quiet", `1`)
		w.publish("busy", `1`)
		c := w.join("ann", `"subs":{"quiet":{},"busy":{},"followed":{}}`)
		subs := c.welcome.Subs
		c.send(`{"t":"unsub","stream":"quiet"}`)
		c.send(`{"t":"unsub","stream":"busy"}`)
		for range 60 {
			time.Sleep(time.Minute)
			w.publish("busy", `1`)
		}
		want(t, "streams", w.srv.Stats().Streams, 2)
		c = w.join("ann", fmt.Sprintf(`"subs":{"quiet":{"after":1,"epoch":%q},"busy":{"after":61,"epoch":%q},"followed":{"after":0,"epoch":%q}}`,
			subs["quiet"].Epoch, subs["busy"].Epoch, subs["followed"].Epoch))
		for name, resync := range map[string]bool{"quiet": true, "busy": false, "followed": false} {
			if got := c.welcome.Subs[name].Resync; got != resync {
				t.Errorf("%s: resync %v, want %v", name, got, resync)
			}
		}
		w.net.Cut()
		time.Sleep(time.Hour)
		want(t, "streams in the end", w.srv.Stats(), server.Stats{
			Handshakes: 2, Welcomes: 2, Published: 62, Resyncs: 1, Resets: 1,
			Frames: w.srv.Stats().Frames, Events: w.srv.Stats().Events,
		})
	})
}

func TestBaseClient(t *testing.T) {
	inWorld(t, server.Options{OnMessage: echo}, func(t *testing.T, w *world) {
		c := w.dial("ann")
		c.send(`{"t":"resume"}`)
		c.welcomed()
		want(t, "gen, user", []any{c.welcome.Gen, c.welcome.User}, []any{uint64(0), ""})
		for i := range 3 {
			if _, err := w.srv.PublishTo(t.Context(), "ann", fmt.Append(nil, i)); err != nil {
				t.Fatal(err)
			}
		}
		c.expect(event("", 1, `0`), event("", 2, `1`), event("", 3, `2`))
		c.send(`{"t":"msg","id":"1","body":"x"}`)
		c.expect(wire.Ack{ID: "1", Result: wire.Raw(`"x"`)})
		c.link.Cut()

		// The session id stands for the epoch; batch means nothing without v.
		c2 := w.dial("ann")
		c2.send(`{"t":"resume","session":%q,"after":1,"batch":true}`, c.welcome.Session)
		c2.welcomed()
		want(t, "resync", c2.welcome.Own.Resync, false)
		c2.expect(event("", 2, `1`), event("", 3, `2`))
		c3 := w.dial("ann")
		c3.send(`{"t":"resume","session":%q,"after":3}`, c.welcome.Session)
		c3.welcomed()
		c2.closed(wire.CloseNotNewest, "gen=3")
		c4 := w.dial("ann")
		c4.send(`{"t":"resume","session":"unknown","after":3}`)
		c4.welcomed()
		want(t, "resync of an unknown session", c4.welcome.Own.Resync, true)
	})
}

func TestBatches(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		epoch := w.join("ann", `"subs":{"s":{}}`).welcome.Subs["s"].Epoch
		w.net.Cut()
		synctest.Wait()
		data := `"` + strings.Repeat("x", 1000) + `"`
		for range 100 {
			w.publish("s", data)
		}
		c := w.join("ann", wanted("s", 0, epoch), `"batch":true`)
		total := 0
		for total < 100 {
			f, ok := c.next().(wire.Events)
			if !ok || f.From != uint64(total+1) || len(f.Append(nil)) > wire.BatchBytes+200 {
				t.Fatalf("after %d events: %T from %d, %d bytes", total, f, f.From, len(f.Append(nil)))
			}
			total += len(f.Data)
		}
		if got := w.srv.Stats().Frames; got > 8 {
			t.Errorf("100 KB took %d messages", got)
		}
	})
}

func TestLargeFramesAreAnnounced(t *testing.T) {
	large := `"` + strings.Repeat("x", 300_000) + `"`
	inWorld(t, server.Options{
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{State: []byte(large)}, nil
		},
		OnMessage: func(context.Context, server.Message) (json.RawMessage, error) { return []byte(large), nil },
	}, func(t *testing.T, w *world) {
		for _, batch := range []string{`"batch":true`, `"batch":false`} {
			c := w.join("ann", `"subs":{"s":{}}`, batch)
			c.announced("snapshot")
			w.publish("s", large)
			c.announced("event")
			c.send(`{"t":"msg","id":"1","body":1}`)
			c.announced("ack")
		}
	})
}

// announced expects a frame of type t, and right before it a heartbeat that says
// how large it is.
func (c *client) announced(t string) {
	c.t.Helper()
	var next int64
	for f := range c.frames {
		if hb, ok := f.(wire.Heartbeat); ok {
			next = hb.Next
			continue
		}
		if size := int64(len(f.Append(nil))); f.Type() != t || size != next {
			c.t.Fatalf("%s of %d bytes after an announcement of %d; want %s", f.Type(), size, next, t)
		}
		return
	}
	c.t.Fatalf("connection ended: %v", c.err)
}
