package server

import (
	"container/list"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// gateTime is how long a hello waits for its turn. A client waits for its welcome
// for twice that.
const gateTime = 5 * time.Second

// gate lets hellos through at a rate, resumes before new sessions.
type gate struct {
	limiter *rate.Limiter

	mu      sync.Mutex
	resumes list.List // of chan struct{}, closed when it is its turn
	others  list.List
	opening bool // the time of the next turn is under way
}

func newGate(perSec float64) *gate { return &gate{limiter: perSecond(perSec)} }

// pass waits for a turn, and reports false when none came in time or stop was
// closed.
func (g *gate) pass(resume bool, stop <-chan struct{}) bool {
	g.mu.Lock()
	if g.resumes.Len()+g.others.Len() == 0 && g.limiter.Allow() {
		g.mu.Unlock()
		return true
	}
	queue := &g.others
	if resume {
		queue = &g.resumes
	}
	turn := make(chan struct{})
	place := queue.PushBack(turn)
	g.next()
	g.mu.Unlock()

	timer := time.NewTimer(gateTime)
	defer timer.Stop()
	select {
	case <-turn:
		return true
	case <-timer.C:
	case <-stop:
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case <-turn:
		return true
	default:
		queue.Remove(place)
		return false
	}
}

// next sees to it that the one whose turn is next gets it when it is time. It needs
// g.mu.
func (g *gate) next() {
	if g.opening || g.resumes.Len()+g.others.Len() == 0 {
		return
	}
	g.opening = true
	time.AfterFunc(g.limiter.Reserve().Delay(), func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.opening = false
		queue := &g.resumes
		if queue.Len() == 0 {
			queue = &g.others
		}
		if first := queue.Front(); first != nil {
			close(queue.Remove(first).(chan struct{}))
		}
		g.next()
	})
}
