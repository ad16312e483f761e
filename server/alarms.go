package server

import (
	"container/heap"
	"time"
)

// alarms wake the connections of a worker, by elapsed time: with one timer for all.
// (It has a function and no channel of its own: that crashes the race detector in a
// synctest bubble when two goroutines meet an expired one, go1.26.)
type alarms struct {
	worker *worker
	heap   alarmHeap
	timer  *time.Timer
	at     time.Duration // when the timer rings, 0: it is not set
}

// alarm is a connection's, of its worker's goroutine alone.
type alarm struct {
	at    time.Duration // by the server's clock, 0: none
	place int           // in the heap
}

// set makes sure that c is woken at that time, or before.
func (a *alarms) set(c *conn, at time.Duration) {
	switch {
	case c.alarm.at == 0:
		c.alarm.at = at
		heap.Push(&a.heap, c)
	case at < c.alarm.at:
		c.alarm.at = at
		heap.Fix(&a.heap, c.alarm.place)
	default:
		return // it looks again then
	}
	a.wind()
}

// drop takes the alarm of c away, if it has one.
func (a *alarms) drop(c *conn) {
	if c.alarm.at != 0 {
		heap.Remove(&a.heap, c.alarm.place)
		c.alarm.at = 0
	}
}

// wind sets the timer for the first alarm.
func (a *alarms) wind() {
	if len(a.heap) == 0 || a.at != 0 && a.at <= a.heap[0].alarm.at {
		return
	}
	a.at = a.heap[0].alarm.at
	d := a.at - a.worker.s.clock()
	if a.timer == nil {
		a.timer = time.AfterFunc(d, a.worker.ring)
	} else {
		a.timer.Reset(d)
	}
}

func (a *alarms) stop() {
	if a.timer != nil {
		a.timer.Stop()
	}
}

// ring wakes the connections whose time has come.
func (a *alarms) ring() {
	a.at = 0
	now := a.worker.s.clock()
	for len(a.heap) > 0 && a.heap[0].alarm.at <= now {
		c := heap.Pop(&a.heap).(*conn)
		c.alarm.at = 0
		c.wake()
	}
	a.wind()
}

// alarmHeap implements heap.Interface.
type alarmHeap []*conn

func (h alarmHeap) Len() int           { return len(h) }
func (h alarmHeap) Less(i, j int) bool { return h[i].alarm.at < h[j].alarm.at }

func (h alarmHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].alarm.place, h[j].alarm.place = i, j
}

func (h *alarmHeap) Push(c any) {
	c.(*conn).alarm.place = len(*h)
	*h = append(*h, c.(*conn))
}

func (h *alarmHeap) Pop() any {
	last := len(*h) - 1
	c := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	return c
}
