package redisstore_test

import (
	"errors"
	"flag"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
)

var schedules = flag.Int("schedules", 6, "how many drawn schedules of faults to play")

// Whatever happens to Redis and to the connections to it: a follower has each event
// once and in order, or is told of a gap.
func TestAnyScheduleOfFaultsIsLosslessOrSaysSo(t *testing.T) {
	t.Parallel()
	seed := mathrand.Uint64()
	for i := range *schedules {
		t.Run(fmt.Sprintf("seed=%d/%d", seed, i), func(t *testing.T) {
			t.Parallel()
			play(t, mathrand.New(mathrand.NewPCG(seed, uint64(i)))) //nolint:gosec // to be played again
		})
	}
}

// schedule is a run: two nodes on a Redis, each behind a proxy, and each with a follower.
type schedule struct {
	t         *testing.T
	r         *redistest.Server
	proxies   [2]*redistest.Proxy
	nodes     [2]server.Store
	followers [2]*follower
	last      int
	missing   map[int]bool // events that were not published for certain
	log       []string
}

func play(t *testing.T, rng *mathrand.Rand) {
	t.Helper()
	s := &schedule{t: t, r: redistest.Start(t, "--enable-debug-command", "yes"), missing: make(map[int]bool)}
	for i := range s.nodes {
		s.proxies[i] = redistest.StartProxy(t, s.r.Addr())
		s.nodes[i] = node(t, s.proxies[i].URL(), impatient, keep(1000))
		s.followers[i] = follow(t, s.nodes[i])
	}
	s.r.Do("SAVE")
	faults := []struct {
		name string
		do   func()
	}{
		{"kill subscriptions", func() { kill(s.r, "pubsub") }},
		{"kill connections", func() { kill(s.r, "normal") }},
		{"cut the first", s.proxies[0].Cut},
		{"cut the second", s.proxies[1].Cut},
		{"take the second away", s.proxies[1].Down},
		{"bring the second back", s.proxies[1].Up},
		{"restart with data", func() { s.r.Restart(true) }},
		{"restart without", func() { s.r.Restart(false) }},
		{"restart with an earlier state", func() { s.r.Do("SAVE"); s.publish(0, 3); s.r.Stop(); s.r.Resume() }},
		{"roll back in place", s.rollBack},
		{"flush", func() { s.r.Do("FLUSHALL") }},
		{"lose what is known", func() { s.r.Do("DEL", "{t:0}m:s") }},
		{"lose the entries", func() { s.r.Do("DEL", "{t:0}e:s") }},
		{"lose the generation", func() { s.r.Do("DEL", "{t:0}gen") }},
		{"forget the scripts", func() { s.r.Do("SCRIPT", "FLUSH") }},
		{"stand still", func() { s.r.Do("DEBUG", "SLEEP", "0.3") }},
	}
	defer func() {
		if t.Failed() {
			t.Logf("schedule: %q, not certain: %v", s.log, s.missing)
		}
	}()
	for range 12 {
		fault := faults[rng.IntN(len(faults))]
		s.log = append(s.log, fmt.Sprintf("%d: %s", s.last, fault.name))
		fault.do()
		s.publish(rng.IntN(len(s.nodes)), 1+rng.IntN(5))
	}
	s.proxies[1].Up()
	// What is published last may be lost with the fault before it, which is said.
	storetest.Eventually(t, "both followers have what was published last", func() bool {
		s.publish(0, 1)
		deadline := time.Now().Add(time.Second)
		for time.Now().Before(deadline) {
			if s.hasLast(s.followers[0].got()) && s.hasLast(s.followers[1].got()) {
				return true
			}
			time.Sleep(5 * time.Millisecond)
		}
		return false
	})
	for i, f := range s.followers {
		s.check(i, f.got())
	}
}

// rollBack brings an earlier state back without a restart. That happens to no real
// Redis, and shows only where somebody has seen what is lost: who has not may be shown
// what took its place before the gap.
func (s *schedule) rollBack() {
	s.r.Do("SAVE")
	s.publish(0, 3)
	if !s.missing[s.last] {
		s.followers[0].until(s.t, s.hasLast)
	}
	s.r.Do("DEBUG", "RELOAD", "NOSAVE")
	for n := s.last - 2; n <= s.last; n++ {
		s.missing[n] = true
	}
}

func (s *schedule) hasLast(got []string) bool {
	return len(got) > 0 && got[len(got)-1] == strconv.Itoa(s.last)
}

// publish publishes through a node, and through the first one when that is cut off.
func (s *schedule) publish(i, n int) {
	for range n {
		s.last++
		if _, err := s.nodes[i].Publish(s.t.Context(), "s", fmt.Append(nil, s.last)); err != nil {
			s.missing[s.last] = true
			s.log = append(s.log, fmt.Sprintf("%d: %v", s.last, err))
			if !errors.Is(err, server.ErrUncertain) {
				i = 0
			}
		}
	}
}

func (s *schedule) check(i int, got []string) {
	s.t.Helper()
	before := 0
	for at, event := range got {
		if event == gap {
			before = -1
			continue
		}
		n, err := strconv.Atoi(event)
		if err != nil {
			s.t.Fatal(err)
		}
		// Only events that were not published for certain can be missing.
		for next := before + 1; before >= 0 && next < n; next++ {
			if !s.missing[next] {
				s.t.Errorf("follower %d: after %d came %d: %q", i, before, n, got[max(0, at-5):at+1])
			}
		}
		if before >= 0 && n <= before {
			s.t.Errorf("follower %d: after %d came %d", i, before, n)
		}
		before = n
	}
	if slices.Index(got, gap) < 0 && len(got) > s.last {
		s.t.Errorf("follower %d: %d events without a gap, %d were published", i, len(got), s.last)
	}
}
