//go:build unix

package fleet_test

import (
	"testing"
	"time"
)

// rollingClients is how many clients a rolling restart moves.
const rollingClients = 300

// TestARollingRestartIsNotNoticed restarts three nodes as planned, one after the other
// (B023).
func TestARollingRestartIsNotNoticed(t *testing.T) {
	args := []string{"-store", startRedis(t).url(), "-drain-grace", "500ms", "-drain-window", "4s"}
	rolling(t, args, func(p *process) { p.stop() })
}

// TestARollingCrashLosesNothing kills three nodes, one after the other, and starts
// others in their place.
func TestARollingCrashLosesNothing(t *testing.T) {
	args := []string{"-store", startRedis(t).url(), "-spread", "2s"}
	rolling(t, args, func(p *process) { p.kill() })
}

func rolling(t *testing.T, args []string, end func(*process)) {
	t.Helper()
	nodes := []*process{start(t, args...), start(t, args...), start(t, args...)}
	b := balance(t, nodes...)
	cs := connect(t, b.listener.Addr().String(), rollingClients, 300)
	l := &ledger{t: t}
	l.through(nodes...)
	l.begin(50 * time.Millisecond)
	l.await(10)
	for i, p := range nodes {
		end(p)
		nodes[i] = start(t, args...)
		nodes[i].awaitReady()
		b.replace(p, nodes[i])
		l.through(nodes...)
		cs.awaitAll("live", (*client).isLive)
		l.await(20)
	}
	l.settle(cs, 0)
	cs.checkConnects(b)
}
