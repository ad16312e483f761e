package main

import (
	"context"
	"fmt"

	"github.com/longwire/longwire/bench/internal/tabs"
	"github.com/longwire/longwire/internal/pause"
)

// manyTabs are so many.
var manyTabs = []int{1, 10}

// measureCost has tabs follow a few events a second, in a browser of its own for each
// library: what a page has taken it keeps.
func measureCost(ctx context.Context, b *bench) error {
	t := &table{ways: ways}
	for round := range b.rounds {
		for _, w := range shuffled(b, ways) {
			err := b.onStage(ctx, link{}, []way{w}, func(uint64) {}, func(ctx context.Context, s *stage) error {
				for _, n := range manyTabs {
					if err := b.cost(ctx, s, w, n, t); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			b.tell("round %d of %d: %s: 10 tabs hold %.0f MB", round+1, b.rounds, w.name, last(t.row("10 tabs: memory (PSS), MB", w.name)))
		}
	}
	heading(b.out, "Tabs with 20 events a second each, %d rounds", b.rounds)
	return t.print(b.out)
}

func (b *bench) cost(ctx context.Context, s *stage, w way, n int, t *table) error {
	all, err := s.tabs.Open(ctx, n)
	if err != nil {
		return err
	}
	h := s.hosts[w.host]
	before, err := h.handshakes()
	if err != nil {
		return err
	}
	if err = s.follow(ctx, all, w); err != nil {
		return err
	}
	var heap, private, pss float64
	var sockets int
	err = s.while(ctx, w, single, func() error {
		if err = pause.For(ctx, 2*b.window); err != nil {
			return err
		}
		used := s.browser.Memory()
		if used.Renderers != n {
			return fmt.Errorf("%d tabs in %d processes", n, used.Renderers)
		}
		if err = tabs.Tell(ctx, all, tabs.Order{Do: "mark"}); err != nil {
			return err
		}
		for _, one := range all {
			if _, err = one.Await(ctx, "marked"); err != nil {
				return err
			}
			var r tabs.Report
			r, err = one.Ask(ctx, tabs.Order{Do: "end"}, "result")
			if err != nil {
				return err
			}
			heap += r.Heap
		}
		used = s.browser.Memory() // after garbage was collected
		pss, private = float64(used.PSS), float64(used.Private)
		sockets, err = h.sockets()
		return err
	})
	if err != nil {
		return err
	}
	after, err := h.handshakes()
	if err != nil {
		return err
	}
	name := fmt.Sprintf("%d tabs: ", n)
	if n == 1 {
		name = "1 tab: "
	}
	const mega = 1e6
	t.add(name+"JS heap, MB", 1, w.name, heap/mega)
	t.add(name+"memory (PSS), MB", 0, w.name, pss/mega)
	t.add(name+"private memory, MB", 0, w.name, private/mega)
	t.add(name+"sockets", 0, w.name, float64(sockets))
	t.add(name+"handshakes", 0, w.name, float64(after-before))
	for i := len(all) - 1; i >= 0; i-- { // the first has the connection, if all share one
		if _, err := all[i].Ask(ctx, tabs.Order{Do: "stop"}, "stopped"); err != nil {
			return err
		}
	}
	return pause.For(ctx, settle)
}
