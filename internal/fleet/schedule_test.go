//go:build unix

package fleet_test

import (
	"cmp"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	soak      = flag.Duration("soak", 0, "play schedules for that long instead of a number of them")
	seed      = flag.Uint64("seed", 0, "play the schedule of this seed only; 0: of new ones")
	followers = flag.Int("clients", 30, "clients of a schedule")
)

const (
	schedules      = 20
	atOnce         = 4 // schedules played at the same time
	scheduleLength = 4 * time.Second
)

// An act is something that happens at some time of a schedule.
type act struct {
	at   time.Duration
	what string
	node int // which one, of those that end nodes
	hold time.Duration
}

// A schedule is what happens to nodes and to Redis.
type schedule struct {
	acts     []act
	restarts int // of Redis
}

// Ways to mistreat Redis: how it begins, and how it ends if not by itself.
var mistreatments = []struct{ begin, end string }{
	{"cut all", ""},
	{"cut subscriptions", ""},
	{"sleep", ""},
	{"pause", "resume"},
	{"stop", "start"},
	{"crash", "start"},
	{"stop and forget", "start"},
}

// draw makes the schedule of a seed.
func draw(seed uint64) schedule {
	r := rand.New(rand.NewPCG(seed, 0))
	between := func(low, high time.Duration) time.Duration { return low + time.Duration(r.Int64N(int64(high-low))) }
	var s schedule
	for at := between(0, time.Second); at < scheduleLength; at += between(300*time.Millisecond, 1500*time.Millisecond) {
		s.acts = append(s.acts, act{at: at, what: []string{"drain", "kill"}[r.IntN(2)], node: r.IntN(3)})
	}
	for at := between(0, time.Second); at < scheduleLength; at += between(100*time.Millisecond, time.Second) {
		m, hold := mistreatments[r.IntN(len(mistreatments))], between(100*time.Millisecond, 1500*time.Millisecond)
		s.acts = append(s.acts, act{at: at, what: m.begin, hold: hold})
		at += hold
		if m.end != "" {
			s.acts = append(s.acts, act{at: at, what: m.end})
		}
		if m.end == "start" {
			s.restarts++
		}
	}
	slices.SortStableFunc(s.acts, func(a, b act) int { return cmp.Compare(a.at, b.at) })
	return s
}

func (s schedule) String() string {
	text := new(strings.Builder)
	fmt.Fprintf(text, "%d restarts of Redis:", s.restarts)
	for _, a := range s.acts {
		fmt.Fprintf(text, "\n  %4d ms %s", a.at.Milliseconds(), a.what)
		switch a.what {
		case "drain", "kill":
			fmt.Fprintf(text, " node %d", a.node)
		case "sleep":
			fmt.Fprintf(text, " for %d ms", a.hold.Milliseconds())
		}
	}
	return text.String()
}

// TestAnyScheduleOfNodesAndRedisIsLossless ends nodes and mistreats Redis at drawn
// times, while events flow. Redis may cost each client one gap, which it is told of, for
// each time that it began anew; nothing else may.
func TestAnyScheduleOfNodesAndRedisIsLossless(t *testing.T) {
	if *seed != 0 {
		play(t, *seed)
		return
	}
	run := func(name string) {
		t.Run(name, func(t *testing.T) {
			for range atOnce {
				seed := rand.Uint64()
				t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
					t.Parallel()
					play(t, seed)
				})
			}
		})
	}
	if *soak == 0 {
		for i := range schedules / atOnce {
			run(fmt.Sprint(i))
		}
		return
	}
	for i, begun := 0, time.Now(); !t.Failed() && time.Since(begun) < *soak; i++ {
		run(fmt.Sprint(i))
	}
}

// A stage is where a schedule is played.
type stage struct {
	t     *testing.T
	args  []string
	redis *redis
	b     *balancer
	l     *ledger
	work  sync.WaitGroup
	sleep sync.WaitGroup // of Redis

	mu    sync.Mutex
	nodes []*process // nil while one is replaced
}

func play(t *testing.T, seed uint64) {
	t.Helper()
	plan := draw(seed)
	t.Logf("seed %d, %v", seed, plan)
	s := &stage{t: t, redis: startRedis(t), l: &ledger{t: t}}
	s.args = []string{"-store", s.redis.url(), "-spread", "1s", "-drain-grace", "200ms", "-drain-window", "1s", "-restart-time", "500ms"}
	s.nodes = []*process{start(t, s.args...), start(t, s.args...), start(t, s.args...)}
	s.b = balance(t, s.nodes...)
	cs := connect(t, s.b.listener.Addr().String(), *followers, 100)
	s.l.through(s.nodes...)
	s.l.begin(50 * time.Millisecond)
	s.l.await(5)

	begun := time.Now()
	for _, a := range plan.acts {
		time.Sleep(time.Until(begun.Add(a.at)))
		s.perform(a)
	}
	s.work.Wait()
	s.sleep.Wait()
	cs.awaitAll("live", (*client).isLive)
	s.l.await(5)
	s.l.settle(cs, plan.restarts)
	cs.checkConnects(s.b)
}

// perform does what an act says.
func (s *stage) perform(a act) {
	s.t.Helper()
	switch a.what {
	case "drain":
		s.end(a.node, (*process).drain)
		return
	case "kill":
		s.end(a.node, (*process).kill)
		return
	}
	s.sleep.Wait() // on a busy machine it began late
	switch a.what {
	case "cut all":
		s.redis.cli("CLIENT", "KILL", "TYPE", "normal")
		s.redis.cli("CLIENT", "KILL", "TYPE", "pubsub")
	case "cut subscriptions":
		s.redis.cli("CLIENT", "KILL", "TYPE", "pubsub")
	case "sleep":
		s.sleep.Go(func() {
			if out, err := s.redis.tryCLI("DEBUG", "SLEEP", fmt.Sprint(a.hold.Seconds())); err != nil {
				s.t.Errorf("DEBUG SLEEP: %v: %s", err, out)
			}
		})
	case "pause":
		s.redis.pause()
	case "resume":
		s.redis.resume()
	case "stop":
		s.redis.stop()
	case "stop and forget":
		s.redis.stop()
		s.redis.forget()
	case "crash":
		s.redis.kill()
	case "start":
		s.redis.start()
	default:
		s.t.Fatalf("nobody knows how to %s", a.what)
	}
}

// end ends a node, unless it has ended already, and starts another one in its place.
func (s *stage) end(i int, how func(*process)) {
	s.mu.Lock()
	p := s.nodes[i]
	s.nodes[i] = nil
	s.publishThrough()
	s.mu.Unlock()
	if p == nil {
		return
	}
	how(p)
	s.work.Go(func() {
		<-p.ended
		var next *process
		for deadline := time.Now().Add(patience); next == nil; {
			var err error
			if next, err = tryStart(s.t, s.args...); err != nil && time.Now().After(deadline) {
				s.t.Error(err)
				return
			}
		}
		s.b.replace(p, next)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.nodes[i] = next
		s.publishThrough()
	})
}

// publishThrough needs s.mu.
func (s *stage) publishThrough() {
	var there []*process
	for _, p := range s.nodes {
		if p != nil {
			there = append(there, p)
		}
	}
	if len(there) > 0 {
		s.l.through(there...)
	}
}
