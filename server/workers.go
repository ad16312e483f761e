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

	mu      sync.Mutex // the innermost of all
	cond    sync.Cond
	ready   line
	crowd   line              // those that are ready for what many are written
	grown   []*stream.Waiters // of logs that have grown
	rang    bool              // an alarm may be due
	running bool
	stopped bool

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
	state      jobState
	again      bool  // there is something to do since the worker began with it
	prev, next *conn // in its line
}

type jobState uint8

const (
	jobNew    jobState = iota // it waits for its resume
	jobIdle                   // nothing to do
	jobReady                  // in the worker's ready
	jobCrowd                  // in the worker's crowd
	jobActive                 // in the hands of the worker, or of a write that waits for the peer
	jobDone                   // gone
)

// turnLength is how many connections of a line are served before those of the other
// get their turn. A stream with more followers has a crowd of them.
const turnLength = 64

func (w *worker) run() {
	defer w.alarms.stop()
	for w.wait() {
		w.wakeReaders()
		w.serve(&w.ready)
		w.serve(&w.crowd)
	}
}

// wakeReaders wakes the followers of all logs that have grown, before any is served: one
// of several is written all of them at once.
func (w *worker) wakeReaders() {
	var room [turnLength]any
	for waiters := w.popGrown(); waiters != nil; waiters = w.popGrown() {
		crowd := waiters.Followers() > turnLength
		for more := true; more; {
			var readers []any
			readers, more = waiters.Take(room[:0], turnLength)
			for _, r := range readers {
				r.(*follow).grown(crowd)
			}
		}
	}
}

// serve gives a turn to some of a line.
func (w *worker) serve(l *line) {
	for range turnLength {
		c := w.pop(l)
		if c == nil {
			return
		}
		c.serve()
	}
}

// wait waits until there is something to do, and reports false once the worker is
// stopped.
func (w *worker) wait() bool {
	w.mu.Lock()
	for w.ready.first == nil && w.crowd.first == nil && len(w.grown) == 0 && !w.rang {
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

// line is a queue of connections, linked by their jobs. A connection is in one at most.
type line struct{ first, last *conn }

func (l *line) push(c *conn) {
	c.job.prev = l.last
	if l.last == nil {
		l.first = c
	} else {
		l.last.job.next = c
	}
	l.last = c
}

func (l *line) remove(c *conn) {
	if c.job.prev == nil {
		l.first = c.job.next
	} else {
		c.job.prev.job.next = c.job.next
	}
	if c.job.next == nil {
		l.last = c.job.prev
	} else {
		c.job.next.job.prev = c.job.prev
	}
	c.job.prev, c.job.next = nil, nil
}

// pop takes the next connection of a line in hand.
func (w *worker) pop(l *line) *conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	c := l.first
	if c != nil {
		l.remove(c)
		c.job = job{state: jobActive}
	}
	return c
}

// push makes c ready. It needs w.mu.
func (w *worker) push(c *conn) {
	c.job.state = jobReady
	w.ready.push(c)
	w.cond.Signal()
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
func (c *conn) wake() { c.worker.wake(c, false) }

// wake makes the worker look at c, with a crowd or out of that.
func (w *worker) wake(c *conn, crowd bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch c.job.state {
	case jobIdle:
		if crowd {
			c.job.state = jobCrowd
			w.crowd.push(c)
			w.cond.Signal()
		} else {
			w.push(c)
		}
	case jobCrowd:
		if !crowd {
			w.crowd.remove(c)
			w.push(c)
		}
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
