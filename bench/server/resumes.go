//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/longwire/longwire/internal/pause"
)

// measureResumes measures clients that lost their connection and come back with a
// position, all at once: when they have missed nothing, and when they have missed 100
// events.
func measureResumes(ctx context.Context, b *bench) error {
	fmt.Fprintf(b.out, "Resumes of %d clients, %d at once\n", b.resumes, atOnce)
	pairs := make(map[string]*pair)
	for _, kind := range []string{centrifuge, longwire} {
		p, err := startPair(ctx, b, kind, settings{Quiet: true})
		if err != nil {
			return err
		}
		defer p.stop(b)
		pairs[kind] = p
	}
	t := &table{base: centrifuge, other: longwire}
	for round := range b.rounds {
		for _, missed := range []int{0, 100} {
			costs, rates := make(map[string]float64), make(map[string]float64)
			for _, kind := range shuffled(b, centrifuge, longwire) {
				cost, took, err := pairs[kind].resume(ctx, b.resumes, missed, func() error {
					return do(ctx, pairs[kind].host, "Publish", missed)
				}, channel)
				if err != nil {
					return fmt.Errorf("%s: %w", kind, err)
				}
				costs[kind] = micros(cost) / float64(b.resumes)
				rates[kind] = float64(b.resumes) / took.Seconds()
				b.tell("round %d of %d: %s, %d missed: %.0f/s", round+1, b.rounds, kind, missed, rates[kind])
			}
			name := fmt.Sprintf("%d missed", missed)
			t.add(row{name: name, unit: "resumes/s", format: "%.0f"}, rates[centrifuge], rates[longwire])
			t.add(row{name: name, unit: "us of server CPU", format: "%.0f"}, costs[centrifuge], costs[longwire])
		}
	}
	return t.print(b.out)
}

// resume lets n new clients come, lose their connections, miss the events that miss
// publishes to the channel, and come back.
func (p *pair) resume(ctx context.Context, n, missed int, miss func() error, streams ...string) (cost, took time.Duration, err error) {
	if err := p.visit(ctx, n, streams...); err != nil {
		return 0, 0, err
	}
	for _, method := range []string{"Remember", "Leave"} {
		if err := do(ctx, p.crowd, method, nothing); err != nil {
			return 0, 0, err
		}
	}
	if err := pause.For(ctx, settle); err != nil {
		return 0, 0, err
	}
	if err := miss(); err != nil {
		return 0, 0, err
	}
	return p.arrivals(ctx, "Return", Return{Addr: p.addr, Missed: missed})
}
