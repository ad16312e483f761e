package server_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// rights answer Authorize: nil, or what was set for a stream.
type rights struct {
	mu    sync.Mutex
	of    map[string]error
	asked map[string]int
}

func (r *rights) authorize(_ context.Context, id server.Identity, stream string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.asked == nil {
		r.asked = make(map[string]int)
	}
	r.asked[id.User+" "+stream]++
	return r.of[stream]
}

func (r *rights) set(stream string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.of == nil {
		r.of = make(map[string]error)
	}
	r.of[stream] = err
}

var forbidden = wire.Answer{Error: wire.ErrForbidden}

func TestReauthorizeTakesAwayWhatIsForbiddenNow(t *testing.T) {
	var r rights
	inWorld(t, server.Options{Authorize: r.authorize}, func(t *testing.T, w *world) {
		const subs = `"subs":{"a":{},"b":{},"c":{}}`
		first, second, bob, nobody := w.join("ann", subs), w.join("ann", subs), w.join("bob", subs), w.join("", subs)
		all := []*client{first, second, bob, nobody}
		w.publish("b", `1`)
		for _, c := range all {
			c.expect(event("b", 1, `1`))
		}
		r.set("b", server.ErrForbidden)
		r.set("c", &server.Refusal{Retry: time.Second}) // cannot be said now: kept
		want(t, "asked about", w.srv.Reauthorize("ann"), 2)
		for _, c := range []*client{first, second} {
			c.expect(wire.Subbed{Stream: "b", Answer: forbidden})
		}
		w.publish("b", `2`)
		w.publish("a", `1`)
		w.publish("c", `1`)
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		for _, c := range []*client{first, second} {
			seen := map[string]bool{}
			for range 3 {
				seen[c.next().(wire.Event).Stream] = true
			}
			want(t, "goes on", seen, map[string]bool{"a": true, "c": true, "": true})
			c.silent()
		}
		bob.until("event")
		r.set("b", nil)
		first.send(`{"t":"sub","stream":"b"}`)
		first.expect(wire.Subbed{Stream: "b", Answer: wire.Answer{Seq: 2, Epoch: first.welcome.Subs["b"].Epoch}})
		want(t, "anonymous", w.srv.Reauthorize(""), 0)
		want(t, "unknown", w.srv.Reauthorize("zoe"), 0)
		if err := w.srv.Close(); err != nil {
			t.Fatal(err)
		}
		want(t, "after Close", w.srv.Reauthorize("ann"), 0)
	})
}

func TestReauthorizeNeverLetsAnEventThroughAfterItsWord(t *testing.T) {
	var r rights
	inWorld(t, server.Options{Authorize: r.authorize, Log: stream.Limits{Events: 2000}}, func(t *testing.T, w *world) {
		c := w.join("ann", `"batch":true`, `"subs":{"a":{},"b":{}}`)
		var publishing sync.WaitGroup
		for _, name := range []string{"a", "b"} {
			publishing.Go(func() {
				for range 2000 {
					w.publish(name, `1`)
				}
			})
		}
		publishing.Go(func() {
			r.set("b", server.ErrForbidden)
			w.srv.Reauthorize("ann")
		})
		publishing.Wait()
		synctest.Wait()
		positions, withdrawn := make(map[string]uint64), false
		for positions["a"] < 2000 || !withdrawn {
			f := c.next()
			if s, ok := f.(wire.Subbed); ok {
				want(t, "answer", s, wire.Subbed{Stream: "b", Answer: forbidden})
				withdrawn = true
				continue
			}
			before := positions["b"]
			follows(t, positions, f)
			if withdrawn && positions["b"] != before {
				t.Fatalf("%s after b was withdrawn", f.Append(nil))
			}
		}
		c.silent()
	})
}

// Calls that come while one waits add nothing; one that comes while one runs is
// followed by another.
func TestReauthorizeCoalesces(t *testing.T) {
	var asked atomic.Int32
	var release chan struct{}
	inWorld(t, server.Options{
		Authorize: func(context.Context, server.Identity, string) error {
			if asked.Add(1) > 1 {
				<-release
			}
			return nil
		},
	}, func(t *testing.T, w *world) {
		release = make(chan struct{})
		w.join("ann", `"subs":{"s":{}}`)
		for range 100 {
			want(t, "asked about", w.srv.Reauthorize("ann"), 1)
		}
		synctest.Wait()
		for range 100 {
			w.srv.Reauthorize("ann")
		}
		close(release)
		synctest.Wait()
		want(t, "Authorize", asked.Load(), 1+2)
	})
}

// A connection that is being welcomed is asked about once it is: no frame comes
// before the welcome, and what was allowed a moment ago is taken away.
func TestReauthorizeDuringAHello(t *testing.T) {
	var r rights
	var release chan struct{}
	inWorld(t, server.Options{
		Authorize: func(ctx context.Context, id server.Identity, stream string) error {
			err := r.authorize(ctx, id, stream)
			if stream == "b" {
				<-release
			}
			return err
		},
	}, func(t *testing.T, w *world) {
		release = make(chan struct{})
		c := w.dial("ann")
		c.send(`{"t":"resume","v":1,"subs":{"a":{},"b":{}}}`)
		synctest.Wait()
		r.set("a", server.ErrForbidden)
		want(t, "asked about", w.srv.Reauthorize("ann"), 1)
		synctest.Wait()
		close(release)
		c.welcomed()
		want(t, "a was allowed when it was asked", c.welcome.Subs["a"].Error, "")
		c.expect(wire.Subbed{Stream: "a", Answer: forbidden})
		w.publish("a", `1`)
		w.publish("b", `1`)
		c.expect(event("b", 1, `1`))
		c.silent()
	})
}

// Subs, unsubs, events, changes of rights and calls, all at once: each sub is
// answered, and what is forbidden in the end is not followed.
func TestReauthorizeAmongSubsAndUnsubs(t *testing.T) {
	var r rights
	inWorld(t, server.Options{Authorize: r.authorize}, func(t *testing.T, w *world) {
		const rounds = 300
		c := w.join("ann")
		var all sync.WaitGroup
		subs := 0
		all.Go(func() {
			for n := range rounds {
				name := fmt.Sprint("s", n%3)
				c.send(`{"t":"sub","stream":%q}`, name)
				subs++
				if n%4 == 0 {
					c.send(`{"t":"unsub","stream":%q}`, name)
				}
			}
		})
		all.Go(func() {
			for n := range rounds {
				r.set(fmt.Sprint("s", n%3), []error{nil, server.ErrForbidden}[n%2])
				w.srv.Reauthorize("ann")
			}
		})
		all.Go(func() {
			for n := range rounds {
				w.publish(fmt.Sprint("s", n%3), `1`)
			}
		})
		all.Wait()
		for n := range 3 {
			r.set(fmt.Sprint("s", n), server.ErrForbidden)
		}
		w.srv.Reauthorize("ann")
		synctest.Wait()
		answers := 0
		positions := make(map[string]uint64)
		for len(c.frames) > 0 {
			f := <-c.frames
			follows(t, positions, f)
			if _, ok := f.(wire.Subbed); ok {
				answers++
			}
		}
		if answers < subs {
			t.Errorf("%d answers to %d subs", answers, subs)
		}
		for n := range 3 {
			w.publish(fmt.Sprint("s", n), `"late"`)
		}
		c.silent()
	})
}

func TestPublishToSession(t *testing.T) {
	inWorld(t, server.Options{SessionLife: time.Minute}, func(t *testing.T, w *world) {
		ann, other, nobody := w.join("ann"), w.join("ann"), w.join("")
		publish := func(c *client, data string, seq uint64, problem error) {
			t.Helper()
			got, err := w.srv.PublishToSession(t.Context(), c.welcome.Session, []byte(data))
			want(t, "number", got, seq)
			if fmt.Sprint(err) != fmt.Sprint(problem) {
				t.Errorf("PublishToSession(%s) = %v, want %v", data, err, problem)
			}
		}
		publish(ann, `"one"`, 1, nil)
		if n, err := w.srv.PublishTo(t.Context(), "ann", []byte(`"all"`)); n != 2 || err != nil {
			t.Errorf("PublishTo = %d, %v", n, err)
		}
		publish(ann, `"three"`, 3, nil)
		publish(nobody, `"anonymous"`, 1, nil)
		ann.expect(event("", 1, `"one"`), event("", 2, `"all"`), event("", 3, `"three"`))
		other.expect(event("", 1, `"all"`))
		nobody.expect(event("", 1, `"anonymous"`))

		ann.link.Cut()
		synctest.Wait()
		publish(ann, `"while away"`, 4, nil)
		again := w.join("ann", fmt.Sprintf(`"session":%q,"after":3,"epoch":%q`, ann.welcome.Session, ann.welcome.Own.Epoch))
		again.expect(event("", 4, `"while away"`))
		other.silent()
		nobody.silent()

		again.link.Cut()
		time.Sleep(2 * time.Minute)
		gone := fmt.Errorf("server: publish to a session: %w", server.ErrNoSession)
		publish(ann, `1`, 0, gone)
		publish(&client{}, `1`, 0, gone)
		publish(other, `{`, 0, fmt.Errorf("server: publish to a session: data: not valid JSON"))
		if err := w.srv.Close(); err != nil {
			t.Fatal(err)
		}
		publish(other, `1`, 0, fmt.Errorf("server: publish to a session: %w", server.ErrClosed))
	})
}

// Knowing where somebody stands is worth nothing: a foreign user and an anonymous
// one get the answer that is given for what is not known, and the owner, who lost a
// right while away, is asked about again.
func TestResumeWithWhatBelongsToAnother(t *testing.T) {
	var r rights
	inWorld(t, server.Options{
		Authorize: func(ctx context.Context, id server.Identity, stream string) error {
			if id.User != "ann" {
				return server.ErrForbidden
			}
			return r.authorize(ctx, id, stream)
		},
	}, func(t *testing.T, w *world) {
		ann := w.join("ann", `"subs":{"s":{}}`)
		w.publish("s", `"secret"`)
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`"secret"`)); err != nil {
			t.Fatal(err)
		}
		ann.until("event")
		ann.until("event")
		mine := ann.welcome
		for _, user := range []string{"bob", ""} {
			answers := make(map[string]int)
			for _, what := range []struct{ session, own, stream, epoch string }{
				{mine.Session, mine.Own.Epoch, "s", mine.Subs["s"].Epoch},
				{"unknown", mine.Own.Epoch, "s", "unknown"},
				{mine.Session, mine.Own.Epoch, "nowhere", mine.Subs["s"].Epoch},
			} {
				c := w.join(user, fmt.Sprintf(`"session":%q,"gen":99,"after":0,"epoch":%q`, what.session, what.own), wanted(what.stream, 0, what.epoch))
				if c.welcome.Session == mine.Session || c.welcome.Own.Epoch == mine.Own.Epoch {
					t.Errorf("%q took the session over", user)
				}
				reset := c.next().(wire.Reset)
				reset.Epoch = ""
				c.silent()
				answers[fmt.Sprint(c.welcome.Subs[what.stream], " ", string(reset.Append(nil)))]++
			}
			want(t, "different answers", len(answers), 1)
		}
		ann.send(`{"t":"ping","n":1}`)
		ann.expect(wire.Pong{N: 1})

		// The owner loses the right while away.
		ann.link.Cut()
		r.set("s", server.ErrForbidden)
		w.publish("s", `"secret"`)
		again := w.join("ann", fmt.Sprintf(`"session":%q,"gen":9`, mine.Session), wanted("s", 1, mine.Subs["s"].Epoch))
		want(t, "session, stream", []any{again.welcome.Session, again.welcome.Subs["s"]}, []any{mine.Session, forbidden})
		r.mu.Lock()
		defer r.mu.Unlock()
		want(t, "asked", r.asked, map[string]int{"ann s": 2})
	})
}
