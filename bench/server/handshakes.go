//go:build linux

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/longwire/longwire/internal/pause"
)

// way is one of the ways in which a handshake can end.
type way struct {
	name   string
	kind   string
	visit  Visit
	budget string // against the first way
}

// ways of which the first is what the others are compared with.
var ways = []way{
	{"welcomed and kept", longwire, newcomer(longwire, channel), ""},
	{"401 from Authenticate", longwire, Visit{Path: pathUnauthorized, Status: 401}, "0.8"},
	{"1013, over the rate", longwire, Visit{Path: pathTurnAway, Status: 101, Close: 1013}, "1"},
	{"503, over the rate of those too", longwire, Visit{Path: pathTurnedAway, Status: 503}, "0.8"},
	{"503 from a closed server", longwire, Visit{Path: pathClosed, Status: 503}, "0.8"},
	{"centrifuge: subscribed and kept", centrifuge, newcomer(centrifuge, channel), ""},
	{"centrifuge: token refused", centrifuge, Visit{
		Path: pathOpen, Status: 101, Hello: `{"id":1,"connect":{"token":"` + stranger + `"}}`, Close: 3500,
	}, ""},
}

// measureHandshakes measures the server's CPU time for handshakes and what comes of
// them, with what a client does that is refused: it goes away.
func measureHandshakes(ctx context.Context, b *bench) error {
	fmt.Fprintf(b.out, "Handshakes: server CPU for each of %d, %d at once\n", b.handshakes, atOnce)
	pairs := make(map[string]*pair)
	for _, kind := range []string{longwire, centrifuge} {
		p, err := startPair(ctx, b, kind, settings{Quiet: true})
		if err != nil {
			return err
		}
		defer p.stop(b)
		pairs[kind] = p
	}
	t := &table{base: ways[0].name, other: "this way"}
	for round := range b.rounds {
		got := make(map[string]float64)
		for _, w := range shuffled(b, ways...) {
			cost, _, err := pairs[w.kind].arrivals(ctx, "Visit", Visits{Addr: pairs[w.kind].addr, Count: b.handshakes, Visit: w.visit})
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			got[w.name] = micros(cost) / float64(b.handshakes)
			b.tell("round %d of %d: %s: %.0f us", round+1, b.rounds, w.name, got[w.name])
		}
		for _, w := range ways {
			t.add(row{name: w.name, unit: "us", format: "%.0f", budget: w.budget}, got[ways[0].name], got[w.name])
		}
	}
	return t.print(b.out)
}

// arrivals makes clients come by a method of the crowd, measures the CPU time of the
// server meanwhile, and lets the clients go.
func (p *pair) arrivals(ctx context.Context, method string, args any) (cost, took time.Duration, err error) {
	before, _, err := p.usage(ctx)
	if err != nil {
		return 0, 0, err
	}
	if took, err = call[time.Duration](ctx, p.crowd, method, args); err != nil {
		return 0, 0, err
	}
	if err = pause.For(ctx, settle); err != nil { // for what comes after the last answer
		return 0, 0, err
	}
	after, _, err := p.usage(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err = do(ctx, p.crowd, "Leave", nothing); err != nil {
		return 0, 0, err
	}
	return after.since(before).total(), took, pause.For(ctx, settle)
}
