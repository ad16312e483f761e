package redisstore_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server/storetest"
)

// B123: the subscription of a node drops and returns, and its clients miss what was
// published in between.
func TestCutSubscriptionMissesNothing(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, r.URL()), node(t, proxy.URL())
	f := follow(t, b)
	publish(t, a, "s", 1, 1)
	f.want(t, numbers(1, 1)...)
	proxy.Down()
	publish(t, a, "s", 2, 6)
	proxy.Up()
	f.want(t, numbers(1, 6)...)
	if n := b.Stats().Renumbered; n != 0 {
		t.Errorf("%d streams were numbered anew", n)
	}
}

func TestCutSubscriptionThatTheLogDoesNotReachBackTo(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, r.URL(), keep(2)), node(t, proxy.URL(), keep(2))
	f := follow(t, b)
	publish(t, a, "s", 1, 1)
	f.want(t, "1")
	epoch := f.feed.Log().Epoch()
	proxy.Down()
	publish(t, a, "s", 2, 6)
	proxy.Up()
	f.want(t, "1", gap, "5", "6")
	if log := f.feed.Log(); log.Epoch() != epoch || !log.Covers(epoch, 4) {
		t.Errorf("epoch %q, want %q, with 4 covered", log.Epoch(), epoch)
	}
}

// A log that has lost its oldest entry only is not a gap for who has the one after.
func TestCutSubscriptionAtTheEdgeOfTheLog(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, r.URL(), keep(1)), node(t, proxy.URL(), keep(1))
	f := follow(t, b)
	publish(t, a, "s", 1, 1)
	f.want(t, "1")
	proxy.Down()
	publish(t, a, "s", 2, 2)
	proxy.Up()
	f.want(t, "1", "2")
}

func TestLostMessagesAreRead(t *testing.T) {
	t.Parallel()
	const events = 400
	r := redistest.Start(t)
	a, b := node(t, r.URL()), node(t, r.URL())
	f := follow(t, b)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := 1; i <= events; i += 20 {
			publish(t, a, "s", i, i+19)
			f.until(t, func(got []string) bool { return len(got) >= i/2 })
		}
	}()
	for killing := true; killing; {
		kill(r, "pubsub")
		select {
		case <-done:
			killing = false
		case <-time.After(20 * time.Millisecond):
		}
	}
	f.want(t, numbers(1, events)...)
}

// A message is lost, and the connection stays: the next one shows it.
func TestHoleIsRead(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	f := follow(t, a)
	publish(t, a, "s", 1, 1)
	f.want(t, "1")
	appendSilently(t, r)
	publish(t, a, "s", 3, 3)
	f.want(t, numbers(1, 3)...)
	if n := a.Stats().Holes; n != 1 {
		t.Errorf("Stats counts %d holes, want 1", n)
	}
}

// appendSilently adds the second event of a stream as if its message had been lost.
func appendSilently(t *testing.T, r *redistest.Server) {
	t.Helper()
	tag := r.Do("HGET", "{t:0}m:s", "tag")
	r.Do("XADD", "{t:0}e:s", "2-0", "d", "2", "t", time.Now().UnixMilli(), "g", "TAG", "p", tag)
	r.Do("HSET", "{t:0}m:s", "head", 2, "tag", "TAG")
}

// The message of the last event is lost, without a sign and without another one: quiet
// streams are compared.
func TestQuietStreamIsCompared(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	f := follow(t, a)
	publish(t, a, "s", 1, 1)
	f.want(t, "1")
	appendSilently(t, r)
	r.Do("PEXPIRE", "{t:0}m:s", 60_000)
	storetest.Eventually(t, "it was compared", func() bool { return len(f.got()) > 1 })
	f.want(t, "1", "2")
	if left := r.Client().PTTL(t.Context(), "{t:0}m:s").Val(); left < 2*time.Minute {
		t.Errorf("what is known of the stream lives for %v only", left)
	}
}

func awaitHead(t *testing.T, r *redistest.Server, head string) {
	t.Helper()
	storetest.Eventually(t, "the head is "+head, func() bool {
		return r.Client().HGet(t.Context(), "{t:0}m:s", "head").Val() == head
	})
}

func TestRestartOfRedis(t *testing.T) {
	t.Parallel()
	for _, keepData := range []bool{false, true} {
		t.Run(map[bool]string{false: "without its data", true: "with its data"}[keepData], func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			a, b := node(t, r.URL()), node(t, r.URL())
			f, g := follow(t, a), follow(t, b)
			publish(t, a, "s", 1, 5)
			f.want(t, numbers(1, 5)...)
			g.want(t, numbers(1, 5)...)
			r.Restart(keepData)
			publish(t, a, "s", 6, 6)
			publish(t, b, "s", 7, 8)
			want := slices.Concat(numbers(1, 5), []string{gap}, numbers(6, 8))
			// The gap may be said before or after the 6 is there.
			f.want(t, want...)
			g.want(t, want...)
			if f.feed.Log().Epoch() != g.feed.Log().Epoch() {
				t.Errorf("epochs %q and %q", f.feed.Log().Epoch(), g.feed.Log().Epoch())
			}
		})
	}
}

func TestFlush(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a, b := node(t, r.URL()), node(t, r.URL())
	f := follow(t, b)
	c := attach(t, b, "", "u", 0, nobody)
	dedupe, own := c.DedupeID(), c.Own().Log().Epoch()
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
	r.Do("FLUSHALL")
	publish(t, a, "s", 4, 4)
	f.want(t, "1", "2", "3", gap, "4")
	storetest.Eventually(t, "the session is there again", func() bool {
		ok, err := a.Knows(t.Context(), c.ID(), "u")
		return ok && err == nil
	})
	storetest.Eventually(t, "its stream is numbered anew", func() bool { return c.Own().Log().Epoch() != own })
	if c.DedupeID() == dedupe {
		t.Error("the memory of message ids is said to be the same")
	}
	if _, err := a.PublishToSession(t.Context(), c.ID(), []byte("1")); err != nil {
		t.Error(err)
	}
	if got := storetest.Next(t, c.Own(), 0, 1); got[0] != "1" {
		t.Errorf("own stream: %q", got)
	}
}

// B058: an earlier state comes back, and by the time it is looked at the new head has
// passed the old one.
func TestRollback(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a, b := node(t, r.URL()), node(t, r.URL())
	f := follow(t, b)
	publish(t, a, "s", 1, 5)
	r.Do("SAVE")
	publish(t, a, "s", 6, 8)
	f.want(t, numbers(1, 8)...)
	r.Stop()
	r.Resume()
	publish(t, a, "s", 106, 115)
	f.want(t, slices.Concat(numbers(1, 8), []string{gap}, numbers(106, 115))...)
}

// The same without a restart, which nothing but the tags can show.
func TestRollbackWithinAGeneration(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--enable-debug-command", "yes")
	a, b := node(t, r.URL()), node(t, r.URL())
	f := follow(t, b)
	publish(t, a, "s", 1, 5)
	r.Do("SAVE")
	publish(t, a, "s", 6, 8)
	f.want(t, numbers(1, 8)...)
	epoch := f.feed.Log().Epoch()
	r.Do("DEBUG", "RELOAD", "NOSAVE")
	publish(t, a, "s", 106, 109)
	f.until(t, func(got []string) bool { return len(got) > 8 })
	if got := f.got(); !slices.Equal(got[:9], append(numbers(1, 8), gap)) {
		t.Errorf("got %q, want a gap after the 8", got)
	}
	if f.feed.Log().Epoch() == epoch {
		t.Errorf("the epoch is still %q", epoch)
	}
	publish(t, a, "s", 110, 110)
	f.until(t, func(got []string) bool { return got[len(got)-1] == "110" })
}

// A replica that lags takes over.
func TestFailoverToALaggingReplica(t *testing.T) {
	t.Parallel()
	primary, replica := redistest.Start(t), redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica.Do("REPLICAOF", host, port)
	proxy := redistest.StartProxy(t, primary.Addr())
	a, b := node(t, proxy.URL()), node(t, proxy.URL())
	f := follow(t, b)
	publish(t, a, "s", 1, 5)
	f.want(t, numbers(1, 5)...)
	awaitHead(t, replica, "5")
	replica.Do("REPLICAOF", "NO", "ONE")
	publish(t, a, "s", 6, 8)
	f.want(t, numbers(1, 8)...)
	proxy.Move(replica.Addr())
	publish(t, a, "s", 106, 115)
	f.want(t, slices.Concat(numbers(1, 8), []string{gap}, numbers(106, 115))...)
	epoch := f.feed.Log().Epoch()

	// And the server that was in charge before comes back with an even older state: it
	// becomes a replica and takes over again, under the run id it always had.
	proxy.Down()
	host, port, _ = strings.Cut(replica.Addr(), ":")
	primary.Do("REPLICAOF", host, port)
	awaitHead(t, primary, "10")
	primary.Do("REPLICAOF", "NO", "ONE")
	proxy.Move(primary.Addr())
	proxy.Up()
	f.until(t, func([]string) bool { return f.feed.Log().Epoch() != epoch })
	publish(t, a, "s", 200, 200)
	f.until(t, func(got []string) bool { return got[len(got)-1] == "200" })
}

// A primary that becomes a replica and is promoted again, all while its clients stay
// connected, may have lost what the other one had not.
func TestPrimaryThatWasAReplicaMeanwhile(t *testing.T) {
	t.Parallel()
	primary, other := redistest.Start(t), redistest.Start(t)
	a := node(t, primary.URL())
	f := follow(t, a)
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	other.Do("REPLICAOF", host, port) // does not begin a generation
	awaitHead(t, other, "3")
	publish(t, a, "s", 4, 5)
	f.want(t, numbers(1, 5)...)
	awaitHead(t, other, "5")
	other.Do("REPLICAOF", "NO", "ONE")
	publish(t, a, "s", 6, 6)
	f.want(t, numbers(1, 6)...)
	host, port, _ = strings.Cut(other.Addr(), ":")
	primary.Do("REPLICAOF", host, port)
	awaitHead(t, primary, "5")
	gen := primary.Do("HGET", "{t:0}gen", "gen")
	primary.Do("REPLICAOF", "NO", "ONE")
	storetest.Eventually(t, "a generation begins", func() bool { return primary.Do("HGET", "{t:0}gen", "gen") != gen })
	f.until(t, func(got []string) bool { return len(got) > 6 && got[6] == gap })
	publish(t, a, "s", 7, 7)
	f.until(t, func(got []string) bool { return got[len(got)-1] == "7" })
}

func TestRedisThatStandsStill(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--enable-debug-command", "yes")
	a, b := node(t, r.URL()), node(t, r.URL())
	f := follow(t, b)
	publish(t, a, "s", 1, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	slept := make(chan struct{})
	go func() {
		defer close(slept)
		_ = r.Client().Do(ctx, "DEBUG", "SLEEP", "4.5").Err() // it may be cut short
	}()
	storetest.Eventually(t, "a store says that Redis is silent", func() bool { return a.Stale() >= 3*time.Second })
	deadline, stop := context.WithTimeout(t.Context(), 20*time.Second)
	defer stop()
	if _, err := a.Publish(deadline, "s", []byte("2")); err != nil {
		t.Errorf("Publish with a deadline: %v", err)
	}
	storetest.Eventually(t, "it says that Redis is back", func() bool { return a.Stale() == 0 })
	cancel()
	<-slept
	publish(t, a, "s", 3, 3)
	f.want(t, numbers(1, 3)...)
}
