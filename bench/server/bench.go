//go:build linux

package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"
)

// The servers that are measured.
const (
	longwire   = "longwire"
	centrifuge = "centrifuge"
)

// bench is the state of one part.
type bench struct {
	options
	out, progress io.Writer
	order         *rand.Rand
	started       time.Time
	busy          time.Duration // of the whole machine, when the part began
	used          time.Duration // by the part's processes that have ended
}

func newBench(o options, out, progress io.Writer) *bench {
	return &bench{
		options:  o,
		out:      out,
		progress: progress,
		order:    rand.New(rand.NewPCG(o.seed, 0)), //nolint:gosec // an order, not a secret
		started:  time.Now(),
		busy:     busyTime(),
	}
}

// shuffled returns the items in an order of this moment.
func shuffled[T any](b *bench, items ...T) []T {
	items = slices.Clone(items)
	b.order.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

// tell says how far the part is.
func (b *bench) tell(format string, args ...any) {
	fmt.Fprintf(b.progress, "%6.1fs  "+format+"\n", append([]any{time.Since(b.started).Seconds()}, args...)...)
}

// reportNoise prints what else the machine did while the part ran: with much of it
// only ratios mean something.
func (b *bench) reportNoise() {
	took := time.Since(b.started)
	others := busyTime() - b.busy - b.used
	fmt.Fprintf(b.out, "(took %.0f s; everything else on this machine kept %.2f cores busy)\n\n",
		took.Seconds(), max(0, others.Seconds()/took.Seconds()))
}

// settle is how long a server is given for what a measurement has left behind:
// connections that end, say.
const settle = 400 * time.Millisecond
