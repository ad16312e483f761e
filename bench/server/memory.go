//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/longwire/longwire/internal/pause"
)

// footprint is what a connection costs at the stages of one server's life, in bytes.
type footprint struct {
	storm, idle, traffic Memory
}

// measureMemory measures what an idle connection costs, each time in a new server: 3 s
// after all have come, after the garbage was collected and given back, and the same
// again after events were sent.
func measureMemory(ctx context.Context, b *bench) error {
	fmt.Fprintf(b.out, "Memory per idle connection, over %d, in default settings\n", b.idle)
	t := &table{base: centrifuge, other: longwire}
	for round := range b.rounds {
		got := make(map[string]footprint)
		for _, kind := range shuffled(b, centrifuge, longwire) {
			f, err := b.footprint(ctx, kind)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			got[kind] = f
			b.tell("round %d of %d: %s: %.1f KB", round+1, b.rounds, kind, kilobytes(f.idle.RSS))
		}
		base, other := got[centrifuge], got[longwire]
		add := func(name, budget string, of func(footprint) int64) {
			t.add(row{name: name, unit: "KB", format: "%.1f", budget: budget}, kilobytes(of(base)), kilobytes(of(other)))
		}
		add("3 s after the storm", "15 KB", func(f footprint) int64 { return f.storm.RSS })
		add("idle", "12 KB", func(f footprint) int64 { return f.idle.RSS })
		add("of it heap", "", func(f footprint) int64 { return f.idle.Heap })
		add("of it stacks", "", func(f footprint) int64 { return f.idle.Stack })
		add("idle after traffic", "idle + 1.5 KB", func(f footprint) int64 { return f.traffic.RSS })
	}
	return t.print(b.out)
}

func kilobytes(n int64) float64 { return float64(n) / 1024 }

// footprint measures one server.
func (b *bench) footprint(ctx context.Context, kind string) (f footprint, err error) {
	p, err := startPair(ctx, b, kind, settings{})
	if err != nil {
		return f, err
	}
	defer p.stop(b)
	before, err := call[Memory](ctx, p.host, "Memory", true)
	if err != nil {
		return f, err
	}
	each := func(free bool) (Memory, error) {
		now, errNow := call[Memory](ctx, p.host, "Memory", free)
		n := int64(b.idle)
		return Memory{
			RSS:   (now.RSS - before.RSS) / n,
			Heap:  (now.Heap - before.Heap) / n,
			Stack: (now.Stack - before.Stack) / n,
		}, errNow
	}
	if err = p.gather(ctx, b.idle, channel); err != nil {
		return f, err
	}
	if err = pause.For(ctx, 3*time.Second); err != nil {
		return f, err
	}
	if f.storm, err = each(false); err != nil {
		return f, err
	}
	if f.idle, err = each(true); err != nil {
		return f, err
	}
	if _, err = call[Singles](ctx, p.host, "Single", 10); err != nil {
		return f, err
	}
	if _, err = call[Flood](ctx, p.host, "Flood", Pace{For: time.Second, Window: windowFor(b.idle)}); err != nil {
		return f, err
	}
	if err = pause.For(ctx, settle); err != nil {
		return f, err
	}
	f.traffic, err = each(true)
	return f, err
}

// gather connects clients that follow the streams and count the channel's events.
func (p *pair) gather(ctx context.Context, n int, streams ...string) error {
	if err := p.visit(ctx, n, streams...); err != nil {
		return err
	}
	return do(ctx, p.crowd, "Watch", nothing)
}

// visit connects clients that follow the streams.
func (p *pair) visit(ctx context.Context, n int, streams ...string) error {
	_, err := call[time.Duration](ctx, p.crowd, "Visit", Visits{Addr: p.addr, Count: n, Visit: newcomer(p.kind, streams...)})
	return err
}
