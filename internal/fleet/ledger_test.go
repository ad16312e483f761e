//go:build unix

package fleet_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// A ledger publishes numbers, one after the other, and knows what became of each.
type ledger struct {
	t *testing.T

	mu        sync.Mutex
	processes []*process
	published []publishing // of n at n-1
	stop      func()       // what begin started
}

type publishing struct {
	seq uint64
	err error // then it may be there or not
}

// through makes the ledger publish through these from now on.
func (l *ledger) through(processes ...*process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.processes = processes
}

// publish publishes the next number through one of the processes and returns it.
func (l *ledger) publish() (n uint64, err error) {
	l.mu.Lock()
	n = uint64(len(l.published)) + 1
	p := l.processes[rand.IntN(len(l.processes))]
	l.mu.Unlock()
	var answer struct{ First, Last uint64 }
	query := url.Values{"stream": {followed}, "data": {fmt.Sprintf(`{"n":%d}`, n)}}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	err = p.request(ctx, http.MethodPost, "/faults/publish?"+query.Encode(), &answer)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.published = append(l.published, publishing{answer.Last, err})
	return n, err
}

// begin publishes a number every interval until end is called, or the test ends.
func (l *ledger) begin(interval time.Duration) {
	over, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-over:
				return
			case <-ticker.C:
				_, _ = l.publish() // remembered
			}
		}
	}()
	l.stop = sync.OnceFunc(func() {
		close(over)
		<-ended
	})
	l.t.Cleanup(l.stop)
}

// end stops publishing, after one number more that has arrived for certain, and
// returns that one.
func (l *ledger) end() uint64 {
	l.t.Helper()
	l.stop()
	var n uint64
	eventually(l.t, "an event published", func() bool {
		var err error
		n, err = l.publish()
		return err == nil
	})
	return n
}

// await waits until n more events are published.
func (l *ledger) await(n int) {
	l.t.Helper()
	want := l.succeeded() + n
	eventually(l.t, fmt.Sprintf("%d more events published", n), func() bool { return l.succeeded() >= want })
}

func (l *ledger) succeeded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, p := range l.published {
		if p.err == nil {
			n++
		}
	}
	return n
}

// settle ends publishing, waits until each client has the last event, and checks what
// they have: each event exactly once, and gaps, at most so many, only where one was
// said.
func (l *ledger) settle(cs *clients, gaps int) {
	l.t.Helper()
	last := l.end()
	seq := l.published[last-1].seq
	cs.awaitAll(fmt.Sprintf("event %d, numbered %d", last, seq), func(c *client) bool {
		got := c.seen()
		return len(got) > 0 && (got[len(got)-1].n == last || got[len(got)-1].gap && got[len(got)-1].seq == seq)
	})
	l.check(cs, gaps)
}

func (l *ledger) check(cs *clients, gaps int) {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	there := make(map[uint64]uint64) // how events are numbered whose publishing had failed
	var whole []*audit               // of clients that were told of no gap
	exact, told := 0, 0
	cs.check(func(c *client) string {
		a := &audit{ledger: l, there: there, had: make(map[uint64]bool)}
		for i, s := range c.seen() {
			a.take(s, i == 0)
		}
		totals := c.c.Totals()
		switch {
		case a.wrong != "":
		case c.problem != "":
			a.wrong = c.problem
		case totals.Holes+totals.Bad > 0:
			a.wrong = fmt.Sprintf("%d frames after a hole, %d bad ones", totals.Holes, totals.Bad)
		case a.gaps > gaps:
			a.wrong = fmt.Sprintf("%d gaps, want %d at most", a.gaps, gaps)
		case a.gaps == 0:
			whole = append(whole, a)
			exact++
		default:
			exact++
		}
		told += a.gaps
		if a.wrong != "" && len(a.told) > 0 {
			a.wrong += "; gaps: " + strings.Join(a.told, ", ")
		}
		return a.wrong
	})
	for _, a := range whole {
		if len(a.had) != len(there) {
			l.t.Errorf("a client without a gap has %d events whose publishing had failed, others have %d", len(a.had), len(there))
		}
	}
	failed := 0
	for _, p := range l.published {
		if p.err != nil {
			failed++
		}
	}
	l.t.Logf("%d of %d clients exact; %d events published, %d more failed, of which %d were seen; %d gaps told",
		exact, len(cs.all), len(l.published)-failed, failed, len(there), told)
}

// An audit goes through what one client was told.
type audit struct {
	*ledger
	there map[uint64]uint64
	had   map[uint64]bool // events whose publishing had failed
	seq   uint64          // of the last step
	n     uint64          // of the last event whose publishing had not failed
	after bool            // a gap was said since
	told  []string
	gaps  int
	wrong string // the first thing that is
}

func (a *audit) take(s step, first bool) {
	switch {
	case a.wrong != "":
	case s.gap:
		a.gaps++
		a.told = append(a.told, fmt.Sprintf("after event %d at %d: %s %d", a.n, a.seq, s.epoch, s.seq))
		a.seq, a.after = s.seq, true
	case !first && s.seq != a.seq+1:
		a.wrong = fmt.Sprintf("event %d is numbered %d, after %d", s.n, s.seq, a.seq)
	case s.n == 0 || s.n > uint64(len(a.published)):
		a.wrong = fmt.Sprintf("event %d, which nobody published", s.n)
	case a.published[s.n-1].err != nil:
		a.doubtful(s)
	default:
		a.certain(s)
	}
}

// certain takes an event that was published: those before it were taken.
func (a *audit) certain(s step) {
	switch want := a.published[s.n-1].seq; {
	case s.seq != want:
		a.wrong = fmt.Sprintf("event %d is numbered %d, and was published as %d", s.n, s.seq, want)
		return
	case s.n <= a.n:
		a.wrong = fmt.Sprintf("event %d after event %d", s.n, a.n)
		return
	}
	for n := a.n + 1; n < s.n && !a.after; n++ {
		if p := a.published[n-1]; p.err == nil {
			a.wrong = fmt.Sprintf("event %d, numbered %d, is missing before event %d, and no gap was said", n, p.seq, s.n)
			return
		}
	}
	a.seq, a.n, a.after = s.seq, s.n, false
}

// doubtful takes an event whose publishing had failed: it may be there, and also later
// than those that were published after it, but for all the same and once.
func (a *audit) doubtful(s step) {
	want, known := a.there[s.n]
	switch {
	case a.had[s.n]:
		a.wrong = fmt.Sprintf("event %d came twice", s.n)
	case known && s.seq != want:
		a.wrong = fmt.Sprintf("event %d is numbered %d, others have it as %d", s.n, s.seq, want)
	}
	a.there[s.n], a.had[s.n], a.seq = s.seq, true, s.seq
}
