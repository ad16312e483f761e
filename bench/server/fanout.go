//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/longwire/longwire/bench/internal/stats"
	"github.com/longwire/longwire/internal/pause"
)

// windowFor is how many events may be under way to the slowest of n clients: enough
// for batches, and little enough for a history of 1,000 and for a round's time.
func windowFor(n int) int { return min(max(512*1000/n, 64), 512) }

// budgets of the design for a number of connections.
var fanOutBudgets = map[int]struct{ written, rate string }{
	100:   {rate: "5"},
	1000:  {written: "0.7", rate: "15"},
	10000: {written: "0.5"},
}

// fanned is what a round has brought for one server.
type fanned struct {
	call, written, receipt float64 // us, medians of the round
	single                 costs   // of an event, published one by one
	rate                   float64 // events a second
	flood                  costs   // of an event, in a flood
}

// costs are those of delivering one event to one connection, in us of CPU.
type costs struct {
	user, total float64 // the server's
	clients     float64 // what the clients took of all
}

// measureFanOut measures what it takes until an event has reached many connections:
// one event at a time, and as many as are taken.
func measureFanOut(ctx context.Context, b *bench) error {
	for _, n := range b.fanOut {
		if err := b.fanOutTo(ctx, n); err != nil {
			return fmt.Errorf("to %d: %w", n, err)
		}
	}
	return nil
}

func (b *bench) fanOutTo(ctx context.Context, n int) error {
	singles := min(max(50_000/n, 10), 50)
	fmt.Fprintf(b.out, "Events to %d connections: %d single ones a round, and a flood with %d under way\n", n, singles, windowFor(n))
	pairs := make(map[string]*pair)
	for _, kind := range []string{centrifuge, longwire} {
		p, err := startPair(ctx, b, kind, settings{Quiet: true})
		if err != nil {
			return err
		}
		defer p.stop(b)
		if err := p.gather(ctx, n, channel); err != nil {
			return err
		}
		pairs[kind] = p
	}
	if err := pause.For(ctx, settle); err != nil {
		return err
	}
	t := &table{base: centrifuge, other: longwire}
	for round := range b.rounds {
		got := make(map[string]fanned)
		for _, kind := range shuffled(b, centrifuge, longwire) {
			f, err := b.fan(ctx, pairs[kind], n, singles)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			got[kind] = f
			b.tell("round %d of %d: %s: %.1f ms for one, %.0f/s", round+1, b.rounds, kind, f.receipt/1000, f.rate)
		}
		budget := fanOutBudgets[n]
		add := func(name, unit, format, budget string, of func(fanned) float64) {
			t.add(row{name: name, unit: unit, format: format, budget: budget}, of(got[centrifuge]), of(got[longwire]))
		}
		add("one: publish call", "us", "%.0f", "20 us", func(f fanned) float64 { return f.call })
		add("one: until the last write", "us", "%.0f", budget.written, func(f fanned) float64 { return f.written })
		add("one: until the last receipt", "us", "%.0f", "", func(f fanned) float64 { return f.receipt })
		add("one: server CPU per event", "us", "%.2f", "", func(f fanned) float64 { return f.single.total })
		add("one: of it user", "us", "%.2f", "2.5 us, 0.35", func(f fanned) float64 { return f.single.user })
		add("one: clients' share of all CPU", "%", "%.0f", "", func(f fanned) float64 { return f.single.clients })
		add("flood", "events/s", "%.0f", budget.rate, func(f fanned) float64 { return f.rate })
		add("flood: server CPU per event", "us", "%.2f", "", func(f fanned) float64 { return f.flood.total })
		add("flood: of it user", "us", "%.2f", "", func(f fanned) float64 { return f.flood.user })
		add("flood: clients' share of all CPU", "%", "%.0f", "", func(f fanned) float64 { return f.flood.clients })
	}
	return t.print(b.out)
}

// fan measures one server for a round.
func (b *bench) fan(ctx context.Context, p *pair, n, singles int) (f fanned, err error) {
	var s Singles
	f.single, err = p.costs(ctx, func() (events int, err error) {
		s, err = call[Singles](ctx, p.host, "Single", singles)
		return singles * n, err
	})
	if err != nil {
		return f, err
	}
	f.call, f.written, f.receipt = medianMicros(s.Calls), medianMicros(s.Arrivals), medianMicros(s.Receipts)
	f.flood, err = p.costs(ctx, func() (events int, err error) {
		flood, err := call[Flood](ctx, p.host, "Flood", Pace{For: b.flood, Window: windowFor(n)})
		f.rate = float64(flood.Events*n) / flood.Took.Seconds()
		return flood.Events * n, err
	})
	return f, err
}

// costs measures the CPU time of the server and its clients while run delivers events.
func (p *pair) costs(ctx context.Context, run func() (events int, err error)) (costs, error) {
	host, crowd, err := p.usage(ctx)
	if err != nil {
		return costs{}, err
	}
	events, err := run()
	if err != nil {
		return costs{}, err
	}
	hostAfter, crowdAfter, err := p.usage(ctx)
	if err != nil {
		return costs{}, err
	}
	server, clients := hostAfter.since(host), crowdAfter.since(crowd)
	return costs{
		user:    micros(server.User) / float64(events),
		total:   micros(server.total()) / float64(events),
		clients: 100 * clients.total().Seconds() / (server.total() + clients.total()).Seconds(),
	}, nil
}

// usage returns the CPU time of both processes.
func (p *pair) usage(ctx context.Context) (host, crowd Usage, err error) {
	if host, err = call[Usage](ctx, p.host, "Usage", nothing); err != nil {
		return host, crowd, err
	}
	crowd, err = call[Usage](ctx, p.crowd, "Usage", nothing)
	return host, crowd, err
}

func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func medianMicros(ds []time.Duration) float64 {
	values := make([]float64, len(ds))
	for i, d := range ds {
		values[i] = micros(d)
	}
	return stats.Median(values)
}
