package reconnect_test

import (
	"container/heap"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// fleet runs many machines in virtual time against a server that answers every
// dial at once: it is down, or it says welcome.
type fleet struct {
	machines []*reconnect.Machine
	conn     []uint64
	now      time.Time
	up       time.Time // when the server is back
	due      dueHeap
	lives    []time.Duration // when each machine was live again, after begun
	begun    time.Time
}

type due struct {
	at time.Time
	i  int
}

type dueHeap []due

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(a, b int) bool { return h[a].at.Before(h[b].at) }
func (h dueHeap) Swap(a, b int)      { h[a], h[b] = h[b], h[a] }
func (h *dueHeap) Push(x any)        { *h = append(*h, x.(due)) }
func (h *dueHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// handle gives machine i an event and answers what it does.
func (f *fleet) handle(i int, ev reconnect.Event) {
	queue := []reconnect.Event{ev}
	for len(queue) > 0 {
		ev, queue = queue[0], queue[1:]
		for _, a := range f.machines[i].Handle(f.now, ev) {
			switch a := a.(type) {
			case reconnect.FetchURL:
				queue = append(queue, reconnect.URLReady{Attempt: a.Attempt})
			case reconnect.Dial:
				f.conn[i] = a.Conn
				if f.now.Before(f.up) {
					queue = append(queue, reconnect.Closed{Conn: a.Conn, Code: 1006})
				} else {
					queue = append(queue, reconnect.Opened{Conn: a.Conn}, reconnect.Received{Conn: a.Conn, Data: []byte(welcome)})
				}
			}
		}
	}
	if f.machines[i].Status().State == reconnect.Live {
		f.lives[i] = f.now.Sub(f.begun)
		return // nothing more is of interest
	}
	if left, ok := f.machines[i].Next(f.now); ok {
		heap.Push(&f.due, due{f.now.Add(left), i})
	}
}

// storm connects n machines, lets them hold their sessions, ends all of them with
// code at one instant and returns when each was live again, the server being down
// for outage.
func storm(t *testing.T, n int, outage time.Duration, code int) []time.Duration {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, uint64(outage)+uint64(code)))
	f := &fleet{
		machines: make([]*reconnect.Machine, n), conn: make([]uint64, n), lives: make([]time.Duration, n),
		now: time.UnixMilli(1_000_000),
	}
	for i := range f.machines {
		m, err := reconnect.NewMachine(reconnect.Policy{Rand: rng.Float64})
		if err != nil {
			t.Fatal(err)
		}
		f.machines[i] = m
		f.handle(i, reconnect.Start{})
	}
	f.now = f.now.Add(6 * time.Second)
	f.due, f.begun, f.up = nil, f.now, f.now.Add(outage)
	for i, m := range f.machines {
		m.Handle(f.now, reconnect.Tick{}) // the session has held
		f.handle(i, reconnect.Closed{Conn: f.conn[i], Code: code})
	}
	for len(f.due) > 0 {
		d := heap.Pop(&f.due).(due)
		f.now = d.at
		f.handle(d.i, reconnect.Tick{})
	}
	return f.lives
}

// busiest returns the largest number of lives within any window of the width.
func busiest(lives []time.Duration, width time.Duration) int {
	counts := make(map[time.Duration]int)
	most := 0
	for _, l := range lives {
		b := l / width
		counts[b]++
		most = max(most, counts[b])
	}
	return most
}

// A thousand clients that lose their sessions at one instant come back spread out.
func TestNoHerdAfterAnOutage(t *testing.T) {
	const n = 1000
	for outage := time.Duration(0); outage <= 10*time.Second; outage += 500 * time.Millisecond {
		lives := storm(t, n, outage, 1006)
		if most := busiest(lives, time.Second); most > 250 {
			t.Errorf("outage of %v: %d clients in the busiest second, want at most 250", outage, most)
		}
		for _, l := range lives {
			if l < outage || l > outage+46*time.Second {
				t.Fatalf("outage of %v: a client is live after %v", outage, l)
			}
		}
	}
}

// The floors of 1012 and 1013 must not become herds themselves.
func TestNoHerdAtTheFloors(t *testing.T) {
	for code, floor := range map[int]time.Duration{1012: 5 * time.Second, 1013: 15 * time.Second, 4429: 15 * time.Second} {
		lives := storm(t, 1000, 0, code)
		if most := busiest(lives, 250*time.Millisecond); most > 100 {
			t.Errorf("%d: %d clients in the fullest quarter of a second, want at most 100", code, most)
		}
		for _, l := range lives {
			if l < floor || l > 2*floor+25*time.Second {
				t.Fatalf("%d: a client is live after %v, the floor is %v", code, l, floor)
			}
		}
	}
}
