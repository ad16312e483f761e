package main

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/longwire/longwire/bench/internal/tabs"
	"github.com/longwire/longwire/internal/pause"
)

// links are what pages are loaded over.
var links = []struct {
	name string
	link link
}{
	{"loopback", link{}},
	{"50 ms, 20 Mbit/s", link{50 * time.Millisecond, 20e6 / 8}},
}

const (
	// frequent is how often there is an event for a page to get.
	frequent = 5 * time.Millisecond
	// warmVisits is after how many visits a browser has cached all that it ever will,
	// code that it has compiled too.
	warmVisits = 3
)

// measureLoad loads a page that nothing is known of, and one that was there before.
func measureLoad(ctx context.Context, b *bench) error {
	t := &table{ways: ways}
	visit := 0
	for _, over := range links {
		err := b.onStage(ctx, over.link, ways, func(uint64) {}, func(ctx context.Context, s *stage) error {
			for round := range b.rounds {
				version := strconv.Itoa(round + 1)
				for _, w := range shuffled(b, ways) {
					var ms float64
					for i := range warmVisits + 1 {
						var err error
						visit++
						if ms, err = s.load(ctx, w, version, visit); err != nil {
							return fmt.Errorf("%s: %w", w.name, err)
						}
						if i == 0 {
							t.add("cold cache, "+over.name+", ms", 0, w.name, ms)
						}
					}
					t.add("warm cache, "+over.name+", ms", 0, w.name, ms)
					b.tell("%s, round %d of %d: %s: %.0f ms", over.name, round+1, b.rounds, w.name, ms)
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	heading(b.out, "From the start of a page to its first event, %d rounds", b.rounds)
	return t.print(b.out)
}

// load returns how long a page took.
func (s *stage) load(ctx context.Context, w way, version string, visit int) (ms float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	all, err := s.tabs.Open(ctx, 1)
	if err != nil {
		return 0, err
	}
	query := url.Values{"url": {s.urls[w.host]}, "visit": {strconv.Itoa(visit)}}
	err = s.while(ctx, w, frequent, func() error {
		open := tabs.Order{Do: "open", URL: s.origin + loadPath(version, w) + "?" + query.Encode()}
		if err = all[0].Tell(ctx, open); err != nil {
			return err
		}
		select {
		case l := <-s.site.loaded:
			if l.Visit != visit {
				return fmt.Errorf("visit %d was reported in place of %d", l.Visit, visit)
			}
			ms = l.Ms
			return nil
		case <-ctx.Done():
			return fmt.Errorf("no event in visit %d: %w", visit, context.Cause(ctx))
		}
	})
	if err != nil {
		return 0, err
	}
	return ms, pause.For(ctx, settle)
}
