package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// restart ends the world's server as planned, lets time pass and returns the world
// of the next one.
func (w *world) restart(o server.Options, downtime time.Duration) *world {
	w.t.Helper()
	if err := w.srv.Close(); err != nil {
		w.t.Fatal(err)
	}
	if err := w.srv.SaveState(); err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(downtime)
	return newWorld(w.t, o)
}

func stateFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state")
}

// back returns the fields with which the client resumes, its own stream from the
// beginning.
func (c *client) back() string {
	return fmt.Sprintf(`"session":%q,"gen":%d,"after":0,"epoch":%q`,
		c.welcome.Session, c.welcome.Gen+1, c.welcome.Own.Epoch)
}

func TestAPlannedRestartCostsNothing(t *testing.T) {
	h := &handler{}
	o := server.Options{StateFile: stateFile(t), OnMessage: h.handle}
	inWorld(t, o, func(t *testing.T, w *world) {
		ann, nobody := w.join("ann", `"subs":{"s":{}}`), w.join("")
		s := ann.welcome.Subs["s"]
		// Bytes must come back as they were, white space and all.
		data := []string{`{ "a": 1 }`, "\"<\u2028>\"", `[]`}
		w.publish("s", data...)
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`"own"`)); err != nil {
			t.Fatal(err)
		}
		for i, d := range []string{"count", "no result", "refuse"} {
			ann.msg(fmt.Sprint(i), d)
		}
		synctest.Wait()
		nobody.msg("0", "count")
		synctest.Wait()

		next := w.restart(o, 10*time.Second)
		again := next.join("ann", ann.back(), fmt.Sprintf(`"subs":{"s":{"after":0,"epoch":%q}}`, s.Epoch))
		want(t, "session, dedupe id", again.welcome.Session+again.welcome.DedupeID, ann.welcome.Session+ann.welcome.DedupeID)
		want(t, "own", again.welcome.Own, wire.Answer{Seq: 1, Epoch: ann.welcome.Own.Epoch})
		want(t, "named", again.welcome.Subs["s"], wire.Answer{Seq: 3, Epoch: s.Epoch})
		var got []string
		for range 4 {
			e := again.next().(wire.Event)
			got = append(got, fmt.Sprintf("%s %d %s", e.Stream, e.Seq, e.Data))
		}
		for i, d := range data {
			data[i] = fmt.Sprintf("s %d %s", i+1, d)
		}
		wantSame(t, got, append(data, ` 1 "own"`)...)

		ran := h.ran.Load()
		again.msg("0", "count")
		again.msg("1", "no result")
		again.msg("2", "refuse")
		again.msg("0", "another body")
		again.expect(ack("0", "1"), ack("1", ""), wire.Nack{ID: "2", Code: "no", Reason: "never"},
			wire.Nack{ID: "0", Code: "conflict", Reason: "the id was used with another body"})
		nobodyAgain := next.join("", nobody.back())
		want(t, "dedupe id", nobodyAgain.welcome.DedupeID, nobody.welcome.DedupeID)
		nobodyAgain.msg("0", "count")
		nobodyAgain.expect(ack("0", "4"))
		want(t, "runs", h.ran.Load(), ran)

		late := next.dial("ann")
		late.send(`{"t":"resume","v":1,%s}`, ann.back())
		late.closed(wire.CloseNotNewest, "gen=")
		next.publish("s", `"next"`)
		again.expect(event("s", 4, `"next"`))
	})
}

// wantSame compares texts in any order.
func wantSame(t *testing.T, got []string, wanted ...string) {
	t.Helper()
	count := make(map[string]int)
	for _, g := range got {
		count[g]++
	}
	for _, w := range wanted {
		count[w]--
	}
	for text, n := range count {
		if n != 0 {
			t.Fatalf("%q: %+d\n got %q\nwant %q", text, n, got, wanted)
		}
	}
}

func TestStateOfOneRestartAfterAnother(t *testing.T) {
	o := server.Options{StateFile: stateFile(t), OnMessage: echo}
	inWorld(t, o, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		s, session := c.welcome.Subs["s"].Epoch, c.welcome.Session
		for i := range 5 {
			w.publish("s", fmt.Sprint(i))
			w = w.restart(o, time.Second)
			c = w.join("ann", c.back(), fmt.Sprintf(`"subs":{"s":{"after":%d,"epoch":%q}}`, i, s))
			want(t, "session", c.welcome.Session, session)
			c.expect(event("s", uint64(i+1), fmt.Sprint(i)))
		}
	})
}

func TestDrainedServerSavesItsState(t *testing.T) {
	h := &handler{}
	o := server.Options{StateFile: stateFile(t), OnMessage: h.handle}
	inWorld(t, o, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		c.link.Mute(true, false) // nothing arrives any more
		c.msg("1", "count")
		report, err := w.srv.Drain(t.Context(), time.Second)
		if err != nil || report.Connections != 1 {
			t.Fatalf("Drain = %+v, %v", report, err)
		}
		w.publish("s", `"while nobody was there"`)
		if err = w.srv.SaveState(); err != nil {
			t.Fatal(err)
		}
		again := newWorld(t, o).join("ann", c.back(), fmt.Sprintf(`"subs":{"s":{"after":0,"epoch":%q}}`, c.welcome.Subs["s"].Epoch))
		want(t, "session", again.welcome.Session, c.welcome.Session)
		again.expect(event("s", 1, `"while nobody was there"`))
		again.msg("1", "count")
		again.expect(ack("1", "1"))
		want(t, "runs", h.ran.Load(), 1)
	})
}

func TestSealedServerPublishesNothing(t *testing.T) {
	inWorld(t, server.Options{OnMessage: func(ctx context.Context, m server.Message) (json.RawMessage, error) {
		return nil, fmt.Errorf("as it publishes: %w", server.ErrSealed)
	}}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		w.publish("s", `1`)
		w.srv.Seal()
		w.srv.Seal()
		for _, name := range []string{"s", "new"} {
			if _, err := w.srv.Publish(t.Context(), name, []byte(`2`)); !errors.Is(err, server.ErrSealed) || !errors.Is(err, stream.ErrSealed) {
				t.Errorf("Publish(%s) = %v, want ErrSealed", name, err)
			}
		}
		for _, user := range []string{"ann", "bob"} {
			if n, err := w.srv.PublishTo(t.Context(), user, []byte(`2`)); n != 0 || !errors.Is(err, server.ErrSealed) {
				t.Errorf("PublishTo(%s) = %d, %v; want 0, ErrSealed", user, n, err)
			}
		}
		if _, err := w.srv.PublishToSession(t.Context(), c.welcome.Session, []byte(`2`)); !errors.Is(err, server.ErrSealed) {
			t.Errorf("PublishToSession = %v, want ErrSealed", err)
		}
		c.expect(event("s", 1, `1`))
		c.send(`{"t":"ping","n":1}`)
		c.expect(wire.Pong{N: 1})
		// Whoever handles a message and cannot publish has perhaps done half of it.
		c.msg("1", "x")
		c.expect(wire.Nack{ID: "1", Code: wire.NackUnknown, Reason: "the handler did not finish"})
	})
}

func TestSaveStateIsRefused(t *testing.T) {
	inWorld(t, server.Options{StateFile: stateFile(t)}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		wantError(t, w.srv.SaveState(), "1 connections are open")
		w.publish("s", `1`) // nothing has changed
		c.expect(event("s", 1, `1`))
		c.link.Cut()
		synctest.Wait()
		if err := w.srv.SaveState(); err != nil { // without a Close
			t.Fatal(err)
		}
		if _, res, err := w.tryDial("ann"); err == nil || res.StatusCode != 503 {
			t.Errorf("dial after SaveState: %v, %v; want 503", res, err)
		}
		if _, err := w.srv.Publish(t.Context(), "s", []byte(`2`)); !errors.Is(err, server.ErrClosed) {
			t.Errorf("Publish after SaveState = %v", err)
		}
		if err := w.srv.SaveState(); err != nil {
			t.Errorf("SaveState again: %v", err)
		}
	})
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		wantError(t, w.srv.SaveState(), "Options.StateFile is not set")
		w.publish("s", `1`)
	})
}

// The end of the server interrupts a handler: nobody knows what it has done.
func TestMessageThatTheRestartInterrupts(t *testing.T) {
	for name, cut := range map[string]bool{"connected": false, "link lost": true} {
		t.Run(name, func(t *testing.T) {
			o := server.Options{StateFile: stateFile(t)}
			synctest.Test(t, func(t *testing.T) {
				h := &handler{release: make(chan struct{})}
				o.OnMessage = h.handle
				w := newWorld(t, o)
				c := w.join("ann")
				c.msg("1", "wait")
				c.msg("2", "count")
				synctest.Wait()
				if cut {
					c.link.Cut()
					synctest.Wait()
				}
				next := w.restart(o, time.Second)
				want(t, "runs before the restart", h.ran.Load(), 1)
				again := next.join("ann", c.back())
				again.msg("1", "wait")
				again.msg("2", "count") // was not begun
				again.expect(wire.Nack{ID: "1", Code: "unknown", Reason: "the handler did not finish"}, ack("2", "2"))
				want(t, "runs", h.ran.Load(), 2)
			})
		})
	}
}

func TestAgesCountTheDowntime(t *testing.T) {
	o := server.Options{
		StateFile: stateFile(t), OnMessage: echo,
		Log: stream.Limits{Age: time.Minute}, SessionLife: 90 * time.Second, DedupeWindow: 2 * time.Minute,
	}
	inWorld(t, o, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		s := c.welcome.Subs["s"].Epoch
		w.publish("s", `1`)
		c.msg("1", "x")
		time.Sleep(30 * time.Second)
		w.publish("s", `2`)

		next := w.restart(o, 40*time.Second) // 1 is 70 s old now
		again := next.join("ann", c.back(), fmt.Sprintf(`"subs":{"s":{"after":1,"epoch":%q}}`, s))
		want(t, "session", again.welcome.Session, c.welcome.Session)
		want(t, "answer", again.welcome.Subs["s"], wire.Answer{Seq: 2, Epoch: s, First: 1})
		again.expect(event("s", 2, `2`))

		last := next.restart(o, 100*time.Second) // longer than a session lives
		stranger := last.join("ann", again.back(), fmt.Sprintf(`"subs":{"s":{"after":2,"epoch":%q}}`, s))
		if stranger.welcome.Session == c.welcome.Session {
			t.Error("the session outlived its life")
		}
		want(t, "answer", stranger.welcome.Subs["s"], wire.Answer{Seq: 2, Epoch: s, First: 2})
		stranger.until("reset")
		// The clock on the wall may have been wrong: answers are kept for longer.
		want(t, "dedupe id", stranger.welcome.DedupeID, c.welcome.DedupeID)
		stranger.msg("1", "x")
		stranger.expect(ack("1", `"x"`))
	})
}

func TestWhatIsRestoredIsBounded(t *testing.T) {
	o := server.Options{StateFile: stateFile(t), OnMessage: echo}
	inWorld(t, o, func(t *testing.T, w *world) {
		var anns []*client
		for i := range 4 {
			c := w.join("ann", `"subs":{"s`+fmt.Sprint(i)+`":{}}`)
			c.msg(fmt.Sprint(i), "x")
			c.until("ack")
			c.link.Cut()
			synctest.Wait()
			anns = append(anns, c)
		}
		for range 2 {
			w.join("").link.Cut()
			synctest.Wait()
		}
		o.Streams, o.UserSessions, o.IdleSessions, o.DedupeLimit = 2, 2, 3, 3
		next := w.restart(o, time.Second)
		stats := next.srv.Stats()
		want(t, "streams, sessions", []int{stats.Streams, stats.Sessions}, []int{2, 3})
		// The last ones are there, the oldest are not.
		last := next.join("ann", anns[3].back(), fmt.Sprintf(
			`"subs":{"s3":{"after":0,"epoch":%q}}`, anns[3].welcome.Subs["s3"].Epoch))
		want(t, "session", last.welcome.Session, anns[3].welcome.Session)
		want(t, "stream", last.welcome.Subs["s3"].Resync, false)
		first := next.join("ann", anns[0].back())
		if first.welcome.Session == anns[0].welcome.Session {
			t.Error("the oldest session is still there")
		}
		first.until("reset")
		// No answer is forgotten early: that message would run again.
		first.msg("0", "x")
		first.msg("new", "x")
		first.expect(ack("0", `"x"`),
			wire.Nack{ID: "new", Code: "busy", Reason: "too many messages to remember", HasRetry: true, Retry: 30_000})

		last.link.Cut()
		first.link.Cut()
		time.Sleep(time.Hour)
		stats = next.srv.Stats()
		want(t, "streams, sessions after an hour", []int{stats.Streams, stats.Sessions}, []int{0, 0})
	})
}

// With a window that has grown clients would trust memory that is not there.
func TestGrownWindowForgetsMessages(t *testing.T) {
	o := server.Options{StateFile: stateFile(t), OnMessage: echo, DedupeWindow: time.Minute}
	inWorld(t, o, func(t *testing.T, w *world) {
		ann, nobody := w.join("ann"), w.join("")
		o.DedupeWindow = 2 * time.Minute
		next := w.restart(o, time.Second)
		for user, c := range map[string]*client{"ann": ann, "": nobody} {
			again := next.join(user, c.back())
			want(t, "session", again.welcome.Session, c.welcome.Session)
			if again.welcome.DedupeID == c.welcome.DedupeID {
				t.Errorf("%q: the id of the memory is still %s", user, c.welcome.DedupeID)
			}
		}
	})
}
