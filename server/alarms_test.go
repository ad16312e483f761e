package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

type alarmStep struct {
	do string
	n  int
	in time.Duration
}

// However alarms are set, taken away and ring, each wakes its connection at the
// earliest time that was asked for, to the millisecond, and no other.
func TestAlarmsUnderAnySchedule(t *testing.T) {
	const conns = 5
	steps := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) alarmStep {
		return alarmStep{
			rapid.SampledFrom([]string{"set", "set", "drop", "wait", "wait"}).Draw(t, "do"),
			rapid.IntRange(0, conns-1).Draw(t, "n"),
			time.Duration(rapid.IntRange(1, 30).Draw(t, "in")) * time.Millisecond,
		}
	}), 1, 60)
	rapid.Check(t, func(rt *rapid.T) {
		schedule := steps.Draw(rt, "steps")
		var err error
		synctest.Test(t, func(*testing.T) { err = runAlarms(schedule, conns) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

func runAlarms(schedule []alarmStep, n int) error {
	w := newWorker(&Server{started: time.Now()})
	defer w.alarms.stop()
	conns := make([]*conn, n)
	for i := range conns {
		conns[i] = &conn{worker: w}
	}
	due := make(map[*conn]time.Duration)
	tick := func() error {
		time.Sleep(time.Millisecond)
		synctest.Wait()
		w.mu.Lock()
		rang := w.rang
		w.rang = false
		w.mu.Unlock()
		if rang {
			w.alarms.ring()
		}
		for i, c := range conns {
			at, set := due[c]
			if isDue := set && at <= w.s.clock(); isDue != c.job.again {
				return fmt.Errorf("connection %d: woken %v at %v, its time is %v (%v)", i, c.job.again, w.s.clock(), at, set)
			}
			if c.job.again {
				c.job.again = false
				delete(due, c)
			}
		}
		return nil
	}
	for _, s := range schedule {
		c := conns[s.n]
		switch s.do {
		case "set":
			at := w.s.clock() + s.in
			w.alarms.set(c, at)
			if before, set := due[c]; !set || at < before {
				due[c] = at
			}
		case "drop":
			w.alarms.drop(c)
			delete(due, c)
		case "wait":
			for range s.in / time.Millisecond {
				if err := tick(); err != nil {
					return err
				}
			}
		}
	}
	for range 31 {
		if err := tick(); err != nil {
			return err
		}
	}
	if len(due)+len(w.alarms.heap) > 0 {
		return fmt.Errorf("%d have not rung, %d are left", len(due), len(w.alarms.heap))
	}
	return nil
}
