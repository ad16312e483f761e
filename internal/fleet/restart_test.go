//go:build unix

package fleet_test

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/wire"
)

// The bar for a restart of the server that 1,000 clients are connected to.
const (
	crowd         = 1000
	busiest       = 250 // clients that are back within one second
	leastSpread   = 5 * time.Second
	slack         = time.Second // beyond the outage and the last window drawn from
	restartWindow = 2 * time.Second
)

// TestACrowdComesBackFromAPlannedRestart restarts the only server in place, with its
// state file.
func TestACrowdComesBackFromAPlannedRestart(t *testing.T) {
	args := []string{"-state", filepath.Join(t.TempDir(), "state"), "-drain-window", restartWindow.String()}
	p := start(t, args...)
	b := balance(t, p)
	cs := connect(t, b.listener.Addr().String(), crowd, 400)
	l := &ledger{t: t}
	l.through(p)
	l.begin(100 * time.Millisecond)
	l.await(10)

	begun := time.Now() // from here on nobody gets in
	p.stop()
	next := start(t, args...)
	next.awaitReady()
	outage := time.Since(begun)
	l.through(next)
	b.replace(p, next)

	cs.awaitBack()
	cs.checkReturn(outage, wire.DefaultSpread)
	cs.checkConnects(b)
	l.await(10)
	l.settle(cs, 0)
}

// TestACrowdComesBackFromACrash kills the only server and starts another one, while
// Redis has what it knew.
func TestACrowdComesBackFromACrash(t *testing.T) {
	args := []string{"-store", startRedis(t).url()}
	p := start(t, args...)
	b := balance(t, p)
	cs := connect(t, b.listener.Addr().String(), crowd, 400)
	l := &ledger{t: t}
	l.through(p)
	l.begin(100 * time.Millisecond)
	l.await(10)

	begun := time.Now()
	p.kill()
	next := start(t, args...)
	next.awaitReady()
	outage := time.Since(begun)
	l.through(next)
	b.replace(p, next)

	cs.awaitBack()
	// Who tried during the outage has drawn again, from twice as long.
	cs.checkReturn(outage, 2*wire.DefaultSpread)
	cs.checkConnects(b)
	l.await(10)
	l.settle(cs, 0)
}

// awaitBack waits until each client has lost its session and has one again.
func (cs *clients) awaitBack() {
	cs.t.Helper()
	cs.awaitAll("back", func(c *client) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.live && len(c.outages) > 0
	})
}

// checkReturn holds the return of all clients, once each, against the bar. window is
// what they drew the last of their waits from.
func (cs *clients) checkReturn(outage, window time.Duration) {
	cs.t.Helper()
	var back []time.Time
	var took []time.Duration
	cs.check(func(c *client) string {
		c.mu.Lock()
		defer c.mu.Unlock()
		back = append(back, c.outages[0].until)
		took = append(took, c.outages[0].until.Sub(c.outages[0].from))
		if n := len(c.outages); n != 1 {
			return fmt.Sprintf("%d times without a session", n)
		}
		return ""
	})
	slices.SortFunc(back, time.Time.Compare)
	slices.Sort(took)
	spread := back[len(back)-1].Sub(back[0])
	p50, p99 := took[len(took)/2], took[len(took)*99/100]
	perSecond := make([]int, int(spread.Seconds())+1)
	most, first := 0, 0 // in any second, whenever it begins
	for i, at := range back {
		perSecond[int(at.Sub(back[0]).Seconds())]++
		for at.Sub(back[first]) > time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	text := new(strings.Builder)
	for second, n := range perSecond {
		fmt.Fprintf(text, "\n  %2d s %4d %s", second, n, strings.Repeat("#", n/5))
	}
	cs.t.Logf("%d clients are back within %.1f s, at most %d in a second, after an outage of %.1f s; without a session for %.1f s (p50), %.1f s (p99), %.1f s (max)%s",
		len(back), spread.Seconds(), most, outage.Seconds(), p50.Seconds(), p99.Seconds(), took[len(took)-1].Seconds(), text)
	if spread < leastSpread {
		cs.t.Errorf("all are back within %v, want %v at least", spread, leastSpread)
	}
	if most > busiest {
		cs.t.Errorf("%d clients are back within one second, want %d at most", most, busiest)
	}
	if limit := outage + window + slack; p99 > limit {
		cs.t.Errorf("p99 of the time without a session is %v, want %v at most", p99, limit)
	}
}
