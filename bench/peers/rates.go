package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/longwire/longwire/bench/internal/browser"
	"github.com/longwire/longwire/bench/internal/stats"
	"github.com/longwire/longwire/bench/internal/tabs"
	"github.com/longwire/longwire/internal/pause"
)

const (
	// underWay is how many events a page may be behind: enough to keep it busy, and
	// less than what a server keeps for it.
	underWay = 512
	// ackEvery is how many events a page confirms at once.
	ackEvery = 64
	// steady is a rate at which every library keeps up.
	steady = time.Millisecond
	// single is a rate at which events meet none of each other.
	single = 50 * time.Millisecond
)

// flood publishes as many events as a page takes.
type flood struct {
	mu     sync.Mutex
	seen   uint64        // by the page, since it follows
	signal chan struct{} // 1-buffered: seen has changed
}

func (f *flood) ack(seq uint64) {
	f.mu.Lock()
	f.seen = seq
	f.mu.Unlock()
	select {
	case f.signal <- struct{}{}:
	default:
	}
}

func (f *flood) acked() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.seen
}

// run publishes until ctx ends, from a moment at which the page had seen so many.
func (f *flood) run(ctx context.Context, h *host, seen uint64) error {
	f.ack(seen)
	published := seen
	for {
		if n := f.acked() + underWay - published; n > 0 {
			if err := h.publish(int(n)); err != nil { //nolint:gosec // at most underWay
				return err
			}
			published += n
		}
		select {
		case <-f.signal:
		case <-ctx.Done():
			return nil
		}
	}
}

// measureRates runs all rounds in one browser.
func measureRates(ctx context.Context, b *bench) error {
	f := &flood{signal: make(chan struct{}, 1)}
	t := &table{ways: ways}
	late := make(map[string][]float64)
	err := b.onStage(ctx, link{}, ways, f.ack, func(ctx context.Context, s *stage) error {
		for round := range b.rounds {
			for _, w := range shuffled(b, ways) {
				if err := b.rates(ctx, s, w, f, t, late); err != nil {
					return fmt.Errorf("%s: %w", w.name, err)
				}
				b.tell("round %d of %d: %s: %.0f events/s", round+1, b.rounds, w.name, last(t.row(perSecond, w.name)))
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for _, w := range ways {
		all := slices.Sorted(slices.Values(late[w.name]))
		for _, p := range []int{50, 99} {
			t.add(fmt.Sprintf("latency of all rounds, p%d, ms", p), 2, w.name, stats.Percentile(all, p))
		}
	}
	heading(b.out, "Events into one page, %d rounds of %s", b.rounds, b.window)
	if err := t.print(b.out); err != nil {
		return err
	}
	return b.drawRates(t)
}

const perSecond = "events/s at saturation"

func last(r *row) float64 { return r.values[len(r.values)-1] }

func (b *bench) rates(ctx context.Context, s *stage, w way, f *flood, t *table, late map[string][]float64) error {
	ctx, cancel := context.WithTimeout(ctx, patience+10*b.window)
	defer cancel()
	all, err := s.tabs.Open(ctx, 1)
	if err != nil {
		return err
	}
	page := all[0]
	if err = s.follow(ctx, all, w); err != nil {
		return err
	}
	r, used, err := s.flood(ctx, page, w, f, b.window)
	if err != nil {
		return fmt.Errorf("saturation: %w", err)
	}
	t.add(perSecond, 0, w.name, r.Events/r.Seconds)
	t.add("whole browser, us an event", 1, w.name, float64(used.All.Microseconds())/r.Events)
	if r, used, err = s.paced(ctx, page, w, steady, b.window); err != nil {
		return fmt.Errorf("at a steady rate: %w", err)
	}
	t.add("main thread, ms for 1,000 events at 1,000/s", 1, w.name, used.Main.Seconds()*1e3/(r.Events/1e3))
	if r, _, err = s.paced(ctx, page, w, single, 4*b.window); err != nil {
		return fmt.Errorf("single events: %w", err)
	}
	late[w.name] = append(late[w.name], r.Latencies...)
	_, err = page.Ask(ctx, tabs.Order{Do: "stop"}, "stopped")
	return err
}

// flood measures a page at saturation.
func (s *stage) flood(ctx context.Context, page *tabs.Tab, w way, f *flood, window time.Duration) (r tabs.Report, used browser.Times, err error) {
	if err = pause.For(ctx, settle); err != nil { // nothing is under way
		return r, used, err
	}
	mark := tabs.Order{Do: "mark", Ack: ackEvery}
	began, err := page.Ask(ctx, mark, "marked")
	if err != nil {
		return r, used, err
	}
	flooding, stop := context.WithCancel(ctx)
	defer stop()
	ended := make(chan error, 1)
	go func() { ended <- f.run(flooding, s.hosts[w.host], began.Seq) }()
	if err = pause.For(ctx, window/2); err != nil { // to warm up
		return r, used, err
	}
	r, used, err = s.measure(ctx, page, mark, window)
	stop()
	if published := <-ended; err == nil {
		err = published
	}
	return r, used, err
}

// paced measures a page while one event is published in each interval.
func (s *stage) paced(ctx context.Context, page *tabs.Tab, w way, interval, window time.Duration) (r tabs.Report, used browser.Times, err error) {
	if err = pause.For(ctx, settle); err != nil {
		return r, used, err
	}
	err = s.while(ctx, w, interval, func() (err error) {
		r, used, err = s.measure(ctx, page, tabs.Order{Do: "mark"}, window)
		return err
	})
	return r, used, err
}

// measure is one measurement of a page.
func (s *stage) measure(ctx context.Context, page *tabs.Tab, mark tabs.Order, window time.Duration) (r tabs.Report, used browser.Times, err error) {
	if _, err = page.Ask(ctx, mark, "marked"); err != nil {
		return r, used, err
	}
	before := s.browser.Times()
	if err = pause.For(ctx, window); err != nil {
		return r, used, err
	}
	used = s.browser.Times().Since(before)
	r, err = page.Ask(ctx, tabs.Order{Do: "end"}, "result")
	if err == nil && r.Events == 0 {
		err = fmt.Errorf("no event within %s", window)
	}
	return r, used, err
}
