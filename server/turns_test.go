package server

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

type turnStep struct {
	do string
	n  int
}

// Turns to replay never exceed the bound, are handed on in the order of asking, and
// none is lost.
func TestTurnsToReplayUnderAnySchedule(t *testing.T) {
	const conns = 6
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) turnStep {
		return turnStep{
			rapid.SampledFrom([]string{"take", "take", "done", "leave", "wait"}).Draw(t, "do"),
			rapid.IntRange(0, conns-1).Draw(t, "n"),
		}
	}), 1, 80)
	rapid.Check(t, func(rt *rapid.T) {
		schedule, bound := steps.Draw(rt, "steps"), rapid.IntRange(1, 3).Draw(rt, "bound")
		var err error
		synctest.Test(t, func(*testing.T) { err = runTurns(schedule, bound, conns) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func runTurns(schedule []turnStep, bound, n int) error {
	r := &replays{free: bound}
	conns := make([]*conn, n)
	for i := range conns {
		conns[i] = &conn{worker: &worker{}}
	}
	var queue []*conn // as it should be, but for those whose turn has come
	for _, s := range schedule {
		switch c := conns[s.n]; s.do {
		case "take":
			if !r.take(c) && !slices.Contains(queue, c) {
				queue = append(queue, c)
			}
		case "done":
			r.done(c)
		case "leave":
			r.leave(c)
			queue = slices.DeleteFunc(queue, func(other *conn) bool { return other == c })
		case "wait":
			time.Sleep(time.Duration(s.n) * replayTime / 4)
		}
		synctest.Wait()
		r.mu.Lock()
		turns := 0
		for _, c := range conns {
			if c.replay.turn.Load() != nil {
				turns++
			}
		}
		var waiting []*conn
		for e := r.queue.Front(); e != nil; e = e.Next() {
			waiting = append(waiting, e.Value.(*conn))
		}
		free := r.free
		r.mu.Unlock()
		if turns+free != bound || free < 0 || len(waiting) > 0 && free > 0 {
			return fmt.Errorf("%v: %d turns, %d free of %d, %d wait", s, turns, free, bound, len(waiting))
		}
		served := len(queue) - len(waiting)
		if served < 0 || !slices.Equal(queue[served:], waiting) {
			return fmt.Errorf("%v: the queue is not what it was without its beginning", s)
		}
		for _, c := range queue[:served] {
			if !c.job.again {
				return fmt.Errorf("%v: a turn has come, and its connection is not woken", s)
			}
			c.job.again = false
		}
		queue = waiting
	}
	time.Sleep(time.Duration(len(queue)+1) * replayTime)
	synctest.Wait()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.queue.Len() != 0 || r.free != bound {
		return fmt.Errorf("in the end %d wait, %d free of %d", r.queue.Len(), r.free, bound)
	}
	return nil
}

// hello is one that comes to the gate.
type hello struct {
	after  time.Duration // that the one before it came
	resume bool
	leaves time.Duration // after coming, if it has not passed by then; 0: it stays

	came, ended time.Time
	passed      bool
}

// Hellos pass at the rate, resumes first, each kind in the order of coming, and each
// has passed or left within the time of the gate.
func TestTheGateUnderAnySchedule(t *testing.T) {
	hellos := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) *hello {
		return &hello{
			after:  time.Duration(rapid.SampledFrom([]int{0, 0, 1, 50, 900}).Draw(t, "after ms")) * time.Millisecond,
			resume: rapid.Bool().Draw(t, "resume"),
			leaves: time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 300, 4999}).Draw(t, "leaves ms")) * time.Millisecond,
		}
	}), 1, 40)
	rapid.Check(t, func(rt *rapid.T) {
		all, rate := hellos.Draw(rt, "hellos"), rapid.SampledFrom([]float64{0.3, 1, 2.5, 10}).Draw(rt, "rate")
		var err error
		synctest.Test(t, func(*testing.T) { err = runGate(all, rate) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func runGate(all []*hello, rate float64) error {
	g := newGate(rate)
	var wg sync.WaitGroup
	for _, h := range all {
		time.Sleep(h.after)
		synctest.Wait()
		h.came = time.Now()
		stop := make(chan struct{})
		if h.leaves > 0 {
			time.AfterFunc(h.leaves, func() { close(stop) })
		}
		wg.Go(func() {
			h.passed = g.pass(h.resume, stop)
			h.ended = time.Now()
		})
		synctest.Wait() // so the order of coming is this one
	}
	wg.Wait()
	if left := g.resumes.Len() + g.others.Len(); left != 0 {
		return fmt.Errorf("%d are left in the queue", left)
	}
	var passed []time.Time
	for i, h := range all {
		waited := h.ended.Sub(h.came)
		if waited > gateTime || h.leaves > 0 && waited > h.leaves || !h.passed && waited != gateTime && waited != h.leaves {
			return fmt.Errorf("hello %d: passed %v after %v, would leave after %v", i, h.passed, waited, h.leaves)
		}
		if !h.passed {
			continue
		}
		passed = append(passed, h.ended)
		for j, other := range all {
			switch waits := other.came.Before(h.ended) && other.ended.After(h.ended); {
			case waits && j < i && h.resume == other.resume:
				return fmt.Errorf("hello %d passed before %d, which came first", i, j)
			case waits && other.resume && !h.resume:
				return fmt.Errorf("hello %d passed before %d, which resumes", i, j)
			}
		}
	}
	slices.SortFunc(passed, time.Time.Compare)
	for i := range passed {
		for j := i; j < len(passed); j++ {
			allowed := math.Ceil(rate) + rate*passed[j].Sub(passed[i]).Seconds() + 1e-6
			if float64(j-i+1) > allowed {
				return fmt.Errorf("%d passed within %v", j-i+1, passed[j].Sub(passed[i]))
			}
		}
	}
	return nil
}
