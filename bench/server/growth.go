//go:build linux

package main

import (
	"context"
	"fmt"

	"github.com/longwire/longwire/internal/pause"
)

// dimension is something of which a Longwire server can have more or less.
type dimension struct {
	key, name string
	sizes     []int
	followers int   // of the channel, at each size
	missed    []int // by clients that resume
	memory    figure
	resume    string                  // how the cost of a resume should grow
	streams   func(size int) []string // that a client follows
	retained  func(size int) int      // events in a log, nil: the default
	// bring brings a new server to a size, and to its followers, and measures memory.
	bring func(ctx context.Context, p *pair, d *dimension, size int) (memory float64, err error)
}

// dimensions are those of a node. That of tabs is the page's: make bench-tabs.
var dimensions = []dimension{
	{
		key: "streams", name: "streams that a client follows", sizes: []int{1, 10, 100, 1000}, followers: 500, missed: []int{0},
		memory: figure{"memory of a connection", "KB", "%.1f", linear}, resume: linear,
		streams: names, bring: bringStreams,
	},
	{
		key: "connected", name: "sessions with a connection", sizes: []int{1000, 5000, 10_000}, followers: 100, missed: []int{0},
		memory: figure{"memory of a connection", "KB", "%.1f", constant}, resume: constant,
		streams: one, bring: bringConnected,
	},
	{
		key: "kept", name: "sessions without a connection", sizes: []int{1000, 5000, 10_000}, followers: 100, missed: []int{0},
		memory: figure{"heap of a session", "KB", "%.2f", constant}, resume: constant,
		streams: one, bring: bringKept,
	},
	{
		key: "retained", name: "events that a log retains", sizes: []int{100, 1000, 10_000, 100_000}, followers: 100, missed: []int{0, 100},
		memory: figure{"heap of an event", "bytes", "%.0f", constant}, resume: constant,
		streams: one, retained: func(size int) int { return size }, bring: bringRetained,
	},
	{
		key: "published", name: "events published before", sizes: []int{1000, 10_000, 100_000, 1_000_000}, followers: 10, missed: []int{0},
		memory: figure{"memory of the server", "MB", "%.1f", constant}, resume: constant,
		streams: one, bring: bringPublished,
	},
}

// names returns n streams: the channel and others.
func names(n int) []string {
	all := []string{channel}
	for i := 1; i < n; i++ {
		all = append(all, fmt.Sprintf("%s/%d", channel, i))
	}
	return all
}

func one(int) []string { return names(1) }

func bringStreams(ctx context.Context, p *pair, d *dimension, size int) (float64, error) {
	bytes, err := p.memoryFor(ctx, resident, func() error { return p.gather(ctx, d.followers, names(size)...) })
	return bytes / float64(d.followers) / 1024, err
}

func bringConnected(ctx context.Context, p *pair, d *dimension, size int) (float64, error) {
	if err := p.gather(ctx, d.followers, channel); err != nil {
		return 0, err
	}
	others := size - d.followers
	bytes, err := p.memoryFor(ctx, resident, func() error { return p.visit(ctx, others, "others") })
	return bytes / float64(others) / 1024, err
}

func bringKept(ctx context.Context, p *pair, d *dimension, size int) (float64, error) {
	if err := p.gather(ctx, d.followers, channel); err != nil {
		return 0, err
	}
	bytes, err := p.memoryFor(ctx, onHeap, func() error {
		if err := p.visit(ctx, size, "others"); err != nil {
			return err
		}
		return do(ctx, p.crowd, "Leave", nothing)
	})
	return bytes / float64(size) / 1024, err
}

func bringRetained(ctx context.Context, p *pair, d *dimension, size int) (float64, error) {
	// In as many streams as have the same number of events at each size: a few alone
	// could not be seen in a process.
	f := Filling{Streams: d.sizes[len(d.sizes)-1] / size, Events: size}
	bytes, err := p.memoryFor(ctx, onHeap, func() error { return do(ctx, p.host, "Fill", f) })
	if err != nil {
		return 0, err
	}
	return bytes / float64(f.Streams*f.Events), p.gather(ctx, d.followers, channel)
}

func bringPublished(ctx context.Context, p *pair, d *dimension, size int) (float64, error) {
	if err := p.gather(ctx, d.followers, channel); err != nil {
		return 0, err
	}
	if err := do(ctx, p.host, "Deliver", Delivery{Events: size, Window: 256}); err != nil {
		return 0, err
	}
	m, err := call[Memory](ctx, p.host, "Memory", true)
	return float64(resident(m)) / (1 << 20), err
}

func resident(m Memory) int64 { return m.RSS }
func onHeap(m Memory) int64   { return m.Heap }

// memoryFor measures what the server holds for what add adds, in bytes.
func (p *pair) memoryFor(ctx context.Context, of func(Memory) int64, add func() error) (float64, error) {
	before, err := call[Memory](ctx, p.host, "Memory", true)
	if err != nil {
		return 0, err
	}
	if err = add(); err != nil {
		return 0, err
	}
	if err = pause.For(ctx, settle); err != nil {
		return 0, err
	}
	after, err := call[Memory](ctx, p.host, "Memory", true)
	return float64(of(after) - of(before)), err
}

// measureGrowth measures how what a server costs grows with each dimension.
func measureGrowth(ctx context.Context, b *bench) error {
	for _, d := range b.growth {
		if err := b.grow(ctx, &d); err != nil {
			return fmt.Errorf("%s: %w", d.name, err)
		}
	}
	return nil
}

// grow measures one dimension. There is a server for each size, and they take turns.
func (b *bench) grow(ctx context.Context, d *dimension) error {
	fmt.Fprintf(b.out, "Growth with %s: %d follow the stream that is published to\n", d.name, d.followers)
	t := &growth{sizes: d.sizes}
	pairs := make([]*pair, len(d.sizes))
	for i, size := range d.sizes {
		set := settings{Quiet: true}
		if d.retained != nil {
			set.Events = d.retained(size)
		}
		p, err := startPair(ctx, b, longwire, set)
		if err != nil {
			return err
		}
		defer p.stop(b)
		memory, err := d.bring(ctx, p, d, size)
		if err != nil {
			return fmt.Errorf("%d: %w", size, err)
		}
		t.add(d.memory, i, memory)
		pairs[i] = p
		b.tell("%d: "+d.memory.format+" %s", size, memory, d.memory.unit)
	}
	order := make([]int, len(pairs))
	for i := range order {
		order[i] = i
	}
	for round := range b.rounds {
		for _, i := range shuffled(b, order...) {
			if err := b.growTo(ctx, d, t, i, pairs[i]); err != nil {
				return fmt.Errorf("%d: %w", d.sizes[i], err)
			}
			b.tell("round %d of %d: %d", round+1, b.rounds, d.sizes[i])
		}
	}
	return t.print(b.out)
}

// growTo measures a server of the i-th size for a round.
func (b *bench) growTo(ctx context.Context, d *dimension, t *growth, i int, p *pair) error {
	var s Singles
	n := min(max(25_000/d.followers, 10), 500)
	cost, err := p.costs(ctx, func() (events int, err error) {
		s, err = call[Singles](ctx, p.host, "Single", n)
		return n * d.followers, err
	})
	if err != nil {
		return err
	}
	t.add(figure{"publish call", "us", "%.1f", constant}, i, medianMicros(s.Calls))
	t.add(figure{"until the last receipt", "us", "%.0f", constant}, i, medianMicros(s.Receipts))
	t.add(figure{"server CPU for an event", "us", "%.2f", constant}, i, cost.total)
	for _, missed := range d.missed {
		resumes := max(b.resumes/5, 1)
		cost, _, err := p.resume(ctx, resumes, missed, func() error {
			return do(ctx, p.host, "Deliver", Delivery{Events: missed, Window: max(missed, 1)})
		}, d.streams(d.sizes[i])...)
		if err != nil {
			return fmt.Errorf("%d missed: %w", missed, err)
		}
		t.add(figure{fmt.Sprintf("resume, %d missed", missed), "us of server CPU", "%.0f", d.resume}, i, micros(cost)/float64(resumes))
	}
	return nil
}
