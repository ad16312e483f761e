package redisstore_test

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
)

// Calls to a Redis that is away fail within a bounded time, or wait as the context says,
// and nothing was published.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL(), impatient)
	f := follow(t, a)
	c := attach(t, a, "", "u", 0, func(gen uint64) { t.Errorf("fenced with %d", gen) })
	publish(t, a, "s", 1, 1)
	f.want(t, "1")
	r.Stop()
	began := time.Now()
	var calls sync.WaitGroup
	for what, call := range map[string]func(context.Context) error{
		"Publish":          func(ctx context.Context) error { _, err := a.Publish(ctx, "s", []byte("0")); return err },
		"PublishTo":        func(ctx context.Context) error { _, err := a.PublishTo(ctx, "u", []byte("0")); return err },
		"PublishToSession": func(ctx context.Context) error { _, err := a.PublishToSession(ctx, c.ID(), []byte("0")); return err },
		"Follow":           func(ctx context.Context) error { _, err := a.Follow(ctx, "t"); return err },
		"Sync":             func(ctx context.Context) error { return f.feed.Sync(ctx) },
		"Knows":            func(ctx context.Context) error { _, err := a.Knows(ctx, c.ID(), "u"); return err },
		"Attach": func(ctx context.Context) error {
			_, err := a.Attach(ctx, server.Attachment{User: "u", Fenced: nobody})
			return err
		},
		"Admit": func(ctx context.Context) error { _, err := c.Admit(ctx, "1", [16]byte{}); return err },
	} {
		calls.Go(func() {
			err := call(t.Context())
			if err == nil || !strings.Contains(err.Error(), "Redis does not answer") || errors.Is(err, server.ErrUncertain) {
				t.Errorf("%s: %v", what, err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err = call(ctx); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%s with a deadline: %v", what, err)
			}
		})
	}
	calls.Wait()
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the calls have taken %v, want about two seconds", took)
	}
	storetest.Eventually(t, "the store says so", func() bool { return a.Stale() > 3*time.Second })
	published := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_, err := a.Publish(ctx, "s", []byte("2"))
		published <- err
	}()
	r.Resume()
	if err := <-published; err != nil {
		t.Errorf("Publish that waits: %v", err)
	}
	storetest.Eventually(t, "the store says that it is back", func() bool { return a.Stale() == 0 })
	f.want(t, "1", gap, "2")
	if finding, err := c.Admit(t.Context(), "1", [16]byte{}); err != nil || finding.Kind != server.Admitted {
		t.Errorf("Admit: %+v, %v", finding, err)
	}
	c.Settle("1", server.Answer{})
}

// What is asked at the start can be asked twice: a lost answer is not the end of it.
func TestOpenGoesOnAfterALostAnswer(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	connections := func() int {
		_, rest, _ := strings.Cut(r.Do("INFO", "stats").(string), "total_connections_received:")
		n, _ := strconv.Atoi(rest[:strings.IndexByte(rest, '\r')]) // digits
		return n
	}
	before := connections()
	proxy.Mute()
	opened := make(chan error, 1)
	go func() {
		s, err := redisstore.Open(redisstore.Options{URL: proxy.URL() + "?read_timeout=200ms"})(storetest.Options())
		if err == nil {
			err = s.Close()
		}
		opened <- err
	}()
	storetest.Eventually(t, "it asks again", func() bool { return connections() > before+1 })
	proxy.Up()
	if err := <-opened; err != nil {
		t.Errorf("Open: %v", err)
	}
}

// The answer to an append is lost: it is not appended twice.
func TestLostAnswerPublishesOnce(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a := node(t, proxy.URL(), impatient)
	b := node(t, r.URL())
	f := follow(t, b)
	c := attach(t, b, "", "u", 0, nobody)
	head := uint64(0)
	for what, call := range map[string]func(context.Context) (uint64, error){
		"Publish": func(ctx context.Context) (uint64, error) { return a.Publish(ctx, "s", []byte("1")) },
		"PublishTo": func(ctx context.Context) (uint64, error) {
			_, err := a.PublishTo(ctx, "u", []byte("1"))
			head++
			return head, err
		},
		"PublishToSession": func(ctx context.Context) (uint64, error) {
			head++
			return a.PublishToSession(ctx, c.ID(), []byte("1"))
		},
	} {
		name, want := "s", uint64(1)
		if what != "Publish" {
			name, want = "@"+c.ID(), head+1
		}
		proxy.Mute()
		done := make(chan error, 1)
		go func() {
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			seq, err := call(ctx)
			if err == nil && seq != want {
				t.Errorf("%s = %d, want %d", what, seq, want)
			}
			done <- err
		}()
		storetest.Eventually(t, "the event is there", func() bool {
			return r.Client().XLen(t.Context(), "{t:0}e:"+name).Val() == int64(want)
		})
		publish(t, b, "other", 1, 3)
		proxy.Up()
		proxy.Cut()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
		if n := r.Client().XLen(t.Context(), "{t:0}e:"+name).Val(); n != int64(want) {
			t.Errorf("%s: %d entries, want %d", what, n, want)
		}
	}
	f.want(t, "1")
}

// When what came after has pushed it out, it cannot be said.
func TestLostAnswerThatCannotBeFound(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, proxy.URL(), impatient, keep(1)), node(t, r.URL(), keep(1))
	proxy.Mute()
	done := make(chan error, 1)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		_, err := a.Publish(ctx, "s", []byte("1"))
		done <- err
	}()
	awaitHead(t, r, "1")
	publish(t, b, "s", 2, 2)
	proxy.Up()
	proxy.Cut()
	if err := <-done; !errors.Is(err, server.ErrUncertain) {
		t.Errorf("Publish: %v, want ErrUncertain", err)
	}
	proxy.Mute()
	if _, err := a.Publish(t.Context(), "s", []byte("3")); !errors.Is(err, server.ErrUncertain) || !errors.Is(err, context.DeadlineExceeded) && !strings.Contains(err.Error(), "timeout") {
		t.Errorf("Publish without an answer: %v, want ErrUncertain, and why", err)
	}
}

// A connection is superseded on another node.
func TestFencingAcrossNodes(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, proxy.URL()), node(t, r.URL())
	fenced := make(chan uint64, 3)
	c := attach(t, a, "", "u", 5, func(gen uint64) { fenced <- gen })
	if _, err := b.PublishToSession(t.Context(), c.ID(), []byte("1")); err != nil {
		t.Fatal(err)
	}
	d := attach(t, b, c.ID(), "u", 6, func(gen uint64) { fenced <- gen })
	if d.ID() != c.ID() {
		t.Fatalf("session %q, want %q", d.ID(), c.ID())
	}
	if gen := <-fenced; gen != 6 {
		t.Errorf("fenced with %d, want 6", gen)
	}
	if got := storetest.Next(t, d.Own(), 0, 1); got[0] != "1" {
		t.Errorf("own stream: %q", got)
	}
	c.Detach() // changes nothing
	if ok, err := a.Knows(t.Context(), c.ID(), "u"); !ok || err != nil {
		t.Errorf("Knows: %v, %v", ok, err)
	}
	// The node of the newest one cannot be told: it finds out when it can.
	e := attach(t, a, c.ID(), "u", 7, func(gen uint64) { fenced <- gen })
	if gen := <-fenced; gen != 7 {
		t.Errorf("fenced with %d, want 7", gen)
	}
	proxy.Down()
	attach(t, b, e.ID(), "u", 8, func(gen uint64) { t.Errorf("the newest is fenced with %d", gen) })
	proxy.Up()
	if gen := <-fenced; gen != 8 {
		t.Errorf("fenced with %d, want 8", gen)
	}
	if f, err := e.Admit(t.Context(), "1", [16]byte{}); err != nil || f.Kind != server.Superseded {
		t.Errorf("Admit: %+v, %v; want Superseded", f, err)
	}
}

// A session record that was lost is made again, by the newest connection.
func TestLostSessionIsMadeAgain(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL(), func(_ *redisstore.Options, so *server.StoreOptions) { so.SessionLife = 3 * time.Second })
	c := attach(t, a, "", "u", 5, func(gen uint64) { t.Errorf("fenced with %d", gen) })
	r.Do("DEL", "{t:0}s:"+c.ID(), "{t:0}u:u")
	storetest.Eventually(t, "it is there again", func() bool {
		ok, err := a.Knows(t.Context(), c.ID(), "u")
		return ok && err == nil
	})
	if n, err := a.PublishTo(t.Context(), "u", []byte("1")); n != 1 || err != nil {
		t.Errorf("PublishTo = %d, %v; want 1", n, err)
	}
	epoch := c.Own().Log().Epoch()
	time.Sleep(4 * time.Second) // longer than it lives without being renewed
	if ok, err := a.Knows(t.Context(), c.ID(), "u"); !ok || err != nil || c.Own().Log().Epoch() != epoch {
		t.Errorf("Knows: %v, %v; epoch %q, was %q", ok, err, c.Own().Log().Epoch(), epoch)
	}
	c.Detach()
	storetest.Eventually(t, "it is forgotten", func() bool {
		ok, err := a.Knows(t.Context(), c.ID(), "u")
		return !ok && err == nil
	})
	if n := r.Client().ZCard(t.Context(), "{t:0}u:u").Val(); n != 0 {
		t.Errorf("%d sessions are listed", n)
	}
}

func TestStreamThatNobodyUsesIsForgotten(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL(), func(_ *redisstore.Options, so *server.StoreOptions) {
		so.StreamLife, so.Log.Age = 300*time.Millisecond, 300*time.Millisecond
	})
	f := follow(t, a)
	epoch := f.feed.Log().Epoch()
	publish(t, a, "s", 1, 1)
	f.feed.Close()
	storetest.Eventually(t, "it is forgotten", func() bool {
		return r.Client().Exists(t.Context(), "{t:0}m:s", "{t:0}e:s").Val() == 0
	})
	if again := follow(t, a).feed.Log(); again.Epoch() == epoch || again.Head() != 0 {
		t.Errorf("epoch %q, head %d; want another epoch, and 0", again.Epoch(), again.Head())
	}
}

// What Redis holds of a stream is bounded as the log is, by age from the next event on.
func TestEntriesAreTrimmed(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL(), keep(3))
	const entries = "{t:0}e:s"
	length := func() int64 { return r.Client().XLen(t.Context(), entries).Val() }
	publish(t, a, "s", 1, 10)
	if n := length(); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}
	old := r.Client().XRange(t.Context(), entries, "-", "+").Val()
	if len(old) != 3 || old[2].ID != "10-0" {
		t.Fatalf("entries %v", old)
	}
	// As if they had been published an hour before.
	r.Do("DEL", entries)
	for _, e := range old {
		at, err := strconv.ParseInt(e.Values["t"].(string), 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		r.Do("XADD", entries, e.ID, "d", e.Values["d"], "t", at-time.Hour.Milliseconds(), "g", e.Values["g"], "p", e.Values["p"])
	}
	publish(t, a, "s", 11, 11)
	if n := length(); n != 1 {
		t.Errorf("%d entries, want 1", n)
	}
	if bytes := r.Do("HGET", "{t:0}m:s", "bytes"); bytes != "2" {
		t.Errorf("bytes %v, want 2", bytes)
	}
}
