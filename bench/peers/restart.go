package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/longwire/longwire/bench/internal/stats"
	"github.com/longwire/longwire/internal/pause"
)

// outage is how long a server is away.
const outage = 2 * time.Second

// measureRestart kills servers under native clients, and starts them again.
func measureRestart(ctx context.Context, b *bench) error {
	t := &table{ways: append([]way{ways[0], brisk}, ways[1:]...)}
	all := make(map[string][]float64)
	for round := range b.rounds {
		for _, w := range shuffled(b, t.ways) {
			waits, err := b.restart(ctx, w)
			if err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
			slices.Sort(waits)
			all[w.name] = append(all[w.name], waits...)
			t.add("server up to live, p50, s", 2, w.name, stats.Percentile(waits, 50))
			t.add("server up to live, last, s", 2, w.name, waits[len(waits)-1])
			t.add("clients in the busiest 100 ms", 0, w.name, float64(busiest(waits, 0.1)))
			b.tell("round %d of %d: %s: the last is live after %.1f s", round+1, b.rounds, w.name, waits[len(waits)-1])
		}
	}
	heading(b.out, "A server that was killed is up after %s, %d clients, %d rounds", outage, b.clients, b.rounds)
	if err := t.print(b.out); err != nil {
		return err
	}
	return b.drawRestart(t.ways, all)
}

// restart returns how long each client had to wait for an event, in seconds since the
// server was up.
func (b *bench) restart(ctx context.Context, w way) (waits []float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	h, err := startHost(ctx, b.options, w, 0, nil)
	if err != nil {
		return nil, err
	}
	defer h.kill()
	clients, err := b.startCrowd(ctx, w, h.url())
	if err != nil {
		return nil, err
	}
	defer clients.kill()
	if _, err = b.sightings(ctx, h, clients, 0); err != nil {
		return nil, fmt.Errorf("at first: %w", err)
	}
	port := h.port
	h.kill()
	if err = pause.For(ctx, outage/2); err != nil { // what was sent has arrived
		return nil, err
	}
	if err = clients.tell.Encode("mark"); err != nil {
		return nil, err
	}
	if err = pause.For(ctx, outage/2); err != nil {
		return nil, err
	}
	again, err := startHost(ctx, b.options, w, port, nil)
	if err != nil {
		return nil, err
	}
	defer again.kill()
	up := float64(time.Now().UnixMicro()) / 1e6
	waits, err = b.sightings(ctx, again, clients, 1)
	for i := range waits {
		waits[i] -= up
	}
	return waits, err
}

// sightings publishes events until each client has got one since a mark, and returns
// when, in seconds since 1970.
func (b *bench) sightings(ctx context.Context, h *host, clients *crowd, mark int64) (seen []float64, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	published := make(chan struct{})
	go func() {
		defer close(published)
		cancel(h.publishEvery(ctx, single))
	}()
	defer func() {
		cancel(nil)
		<-published
	}()
	for len(seen) < b.clients {
		select {
		case s, ok := <-clients.seen:
			if !ok {
				return nil, errors.New("the clients have ended")
			}
			if s.Mark == mark {
				seen = append(seen, s.At/1e3)
			}
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d clients have events: %w", len(seen), b.clients, context.Cause(ctx))
		}
	}
	return seen, nil
}

// crowd is the process of the clients.
type crowd struct {
	*process

	seen chan sighting // closed: it has ended
}

func (b *bench) startCrowd(ctx context.Context, w way, url string) (*crowd, error) {
	args := []string{"clients.js", w.name, url, strconv.Itoa(b.clients)}
	if w.host == hostLongwire || w.host == hostBrisk {
		args = []string{"clients", url, strconv.Itoa(b.clients)}
	}
	p, err := start(ctx, b.options, args...)
	if err != nil {
		return nil, err
	}
	c := &crowd{p, make(chan sighting)}
	go func() {
		defer close(c.seen)
		for {
			var s sighting
			if c.said.Decode(&s) != nil {
				return
			}
			select {
			case c.seen <- s:
			case <-ctx.Done():
				return
			}
		}
	}()
	return c, nil
}

// busiest returns how many waits fall into the fullest interval of a length.
func busiest(sorted []float64, length float64) (most int) {
	from := 0
	for i, wait := range sorted {
		for wait-sorted[from] >= length {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
