//go:build linux

package main

import (
	"context"
	"fmt"
	"time"
)

// measureResumes measures clients that lost their connection and come back with a
// position, all at once: when they have missed nothing, and when they have missed 100
// events.
func measureResumes(ctx context.Context, b *bench) error {
	fmt.Fprintf(b.out, "Resumes of %d clients, %d at once\n", b.resumes, atOnce)
	pairs := make(map[string]*pair)
	for _, kind := range []string{centrifuge, longwire} {
		p, err := startPair(ctx, b, kind, true)
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
				cost, took, err := b.resume(ctx, pairs[kind], missed)
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

// resume lets new clients come, lose their connections, miss events and come back.
func (b *bench) resume(ctx context.Context, p *pair, missed int) (cost, took time.Duration, err error) {
	v := Visits{Addr: p.addr, Count: b.resumes, Visit: newcomer(p.kind)}
	if _, err := call[time.Duration](ctx, p.crowd, "Visit", v); err != nil {
		return 0, 0, err
	}
	for _, method := range []string{"Remember", "Leave"} {
		if err := do(ctx, p.crowd, method, nothing); err != nil {
			return 0, 0, err
		}
	}
	if err := pause(ctx, settle); err != nil {
		return 0, 0, err
	}
	if err := do(ctx, p.host, "Publish", missed); err != nil {
		return 0, 0, err
	}
	return p.arrivals(ctx, "Return", Return{Addr: p.addr, Missed: missed})
}
