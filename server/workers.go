package server

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/longwire/longwire/stream"
)

// workers write to connections. There are as many as processors, and none ever waits
// for a peer: with more, connections that follow one stream would only drift apart,
// and fewer of them could share what is written.
type workers struct {
	all  []*worker
	next atomic.Uint32 // who gets the next connection
	wg   sync.WaitGroup
}

func (ws *workers) init(s *Server) {
	ws.all = make([]*worker, runtime.GOMAXPROCS(0))
	for i := range ws.all {
		ws.all[i] = newWorker(s)
	}
}

// pick returns the worker of a new connection.
func (ws *workers) pick() *worker {
	return ws.all[ws.next.Add(1)%uint32(len(ws.all))] //nolint:gosec // a number of processors
}

// stop ends the workers, which must have no connections any more.
func (ws *workers) stop() {
	for _, w := range ws.all {
		w.mu.Lock()
		w.stopped = true
		w.mu.Unlock()
		w.cond.Signal()
	}
	ws.wg.Wait()
}

// worker writes to some of the connections, each in its turn.
type worker struct {
	s *Server

	mu          sync.Mutex // the innermost of all
	cond        sync.Cond
	first, last *conn             // that are ready, linked by job.next
	grown       []*stream.Waiters // of logs that have grown
	rang        bool              // an alarm may be due
	running     bool
	stopped     bool

	// Of the worker's goroutine alone.
	alarms alarms
	direct direct
	shared sharing
}

func newWorker(s *Server) *worker {
	w := &worker{s: s}
	w.cond.L = &w.mu
	w.alarms.worker = w
	w.direct.init()
	return w
}

// job is what a worker knows of a connection, guarded by its mu.
type job struct {
	state jobState
	again bool  // there is something to do since the worker began with it
	next  *conn // the one that is ready after it
}

type jobState uint8

const (
	jobNew    jobState = iota // it waits for its resume
	jobIdle                   // nothing to do
	jobReady                  // in the worker's queue
	jobActive                 // in the hands of the worker, or of a write that waits for the peer
	jobDone                   // gone
)

// turnLength is how many connections are served before others get their turn: those
// that are ready, and those of each log that has grown.
const turnLength = 64

func (w *worker) run() {
	defer w.alarms.stop()
	readers := make([]any, 0, turnLength)
	for w.wait() {
		for range turnLength {
			c := w.pop()
			if c == nil {
				break
			}
			c.serve()
		}
		waiters := w.popGrown()
		if waiters == nil {
			continue
		}
		var more bool
		readers, more = waiters.Take(readers[:0], turnLength)
		if more {
			w.Notify(waiters)
		}
		for _, r := range readers {
			if c := r.(*conn); w.claim(c) {
				c.serve()
			}
		}
		clear(readers)
	}
}

// wait waits until there is something to do, and reports false once the worker is
// stopped.
func (w *worker) wait() bool {
	w.mu.Lock()
	for w.first == nil && len(w.grown) == 0 && !w.rang {
		if w.stopped {
			w.mu.Unlock()
			return false
		}
		w.shared = sharing{} // holds nothing while it sleeps
		w.cond.Wait()
	}
	rang := w.rang
	w.rang = false
	w.mu.Unlock()
	if rang {
		w.alarms.ring()
	}
	return true
}

// ring says that an alarm may be due.
func (w *worker) ring() {
	w.mu.Lock()
	w.rang = true
	w.mu.Unlock()
	w.cond.Signal()
}

// Notify implements stream.Notifier.
func (w *worker) Notify(waiters *stream.Waiters) {
	w.mu.Lock()
	w.grown = append(w.grown, waiters)
	w.mu.Unlock()
	w.cond.Signal()
}

func (w *worker) popGrown() *stream.Waiters {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.grown) == 0 {
		return nil
	}
	waiters := w.grown[0]
	w.grown[0] = nil
	if w.grown = w.grown[1:]; len(w.grown) == 0 {
		w.grown = nil
	}
	return waiters
}

// pop takes the next connection that is ready.
func (w *worker) pop() *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.first
	if c == nil {
		return nil
	}
	if w.first = c.job.next; w.first == nil {
		w.last = nil
	}
	c.job = job{state: jobActive}
	return c
}

// push makes c ready. It needs w.mu.
func (w *worker) push(c *conn) {
	c.job.state = jobReady
	if w.first == nil {
		w.first = c
	} else {
		w.last.job.next = c
	}
	w.last = c
	w.cond.Signal()
}

// claim takes a connection out of turn, unless it is in the queue, or in hand.
func (w *worker) claim(c *conn) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c.job.state {
	case jobIdle:
		c.job = job{state: jobActive}
		return true
	case jobNew, jobActive:
		c.job.again = true
	case jobReady, jobDone:
	}
	return false
}

// start makes the worker serve c from now on.
func (w *worker) start(c *conn) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.running {
		w.running = true
		w.s.workers.wg.Go(w.run)
	}
	w.push(c)
}

// wake makes the worker look at c: there may be something to write.
func (c *conn) wake() {
	w := c.worker
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c.job.state {
	case jobIdle:
		w.push(c)
	case jobNew, jobActive:
		c.job.again = true
	case jobReady, jobDone:
	}
}

// rest ends a turn of c. more says that there is something left to write.
func (w *worker) rest(c *conn, more bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if more || c.job.again {
		w.push(c)
	} else {
		c.job.state = jobIdle
	}
}

// leave gives c up: it has ended, or has only its goodbye to say.
func (w *worker) leave(c *conn) {
	w.alarms.drop(c)
	w.mu.Lock()
	c.job.state = jobDone
	w.mu.Unlock()
	w.s.wg.Done()
}
