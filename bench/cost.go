package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"text/tabwriter"
	"time"

	"github.com/longwire/longwire/bench/internal/browser"
	"github.com/longwire/longwire/bench/internal/stats"
)

// figure is something that all tabs together take, or that each sees.
type figure struct {
	unit   string
	digits int
	adds   bool // each tab adds to it
	of     func(result) float64
}

const mega = 1e6

// figures are read at the pace, in a browser that has done nothing else. What pages
// share with all processes of a Chromium, and of others, counts in parts only (PSS),
// or not at all.
var figures = []figure{
	{"memory (PSS), MB", 1, true, func(r result) float64 { return float64(r.memory.PSS) / mega }},
	{"private memory, MB", 1, true, func(r result) float64 { return float64(r.memory.Private) / mega }},
	{"JS heap, MB", 2, true, result.heap},
	{"main threads, ms/s", 1, true, func(r result) float64 { return r.perSecond(r.times.Main) }},
	{"whole browser, ms/s", 0, true, func(r result) float64 { return r.perSecond(r.times.All) }},
	{"latency p50, ms", 2, false, func(r result) float64 { return stats.Percentile(latencies([]result{r}), 50) }},
	{"latency p99, ms", 2, false, func(r result) float64 { return stats.Percentile(latencies([]result{r}), 99) }},
}

// heap is in megabytes.
func (r result) heap() float64 {
	sum := 0.0
	for _, t := range r.tabs {
		sum += t.Heap
	}
	return sum / mega
}

// perSecond is how many ms of a second were used.
func (r result) perSecond(used time.Duration) float64 {
	return used.Seconds() * 1e3 / r.window.Seconds()
}

// measureCost runs each way in browsers of its own: what a wasm has taken of a page
// it keeps.
func measureCost(ctx context.Context, out io.Writer, o options, start browser.Command) error {
	fmt.Fprintf(out, "Chromium at %d events/s in each tab, %d rounds of %s for each way\n", pace, o.rounds, o.window)
	results := make(map[int]*pair)
	for _, tabs := range o.tabs {
		results[tabs] = &pair{}
	}
	turns := newTurns(o, shared)
	for round := 1; round <= o.rounds; round++ {
		for _, way := range turns.next() {
			err := inBrowser(ctx, start, func(ctx context.Context, b *browser.Browser, p *peer) error {
				for _, tabs := range o.tabs {
					got, err := p.do(ctx, b, task{way, tabs, paced, o.warmUp, o.window})
					if err != nil {
						return err
					}
					if got.memory.Renderers != tabs {
						return fmt.Errorf("%d tabs in %d processes", tabs, got.memory.Renderers)
					}
					results[tabs].add(way, got)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		first, last := results[o.tabs[0]], results[o.tabs[len(o.tabs)-1]]
		memory := figures[0].of
		fmt.Fprintf(os.Stderr, "round %d of %d, %s, tabs %d: %s; tabs %d: %s\n", round, o.rounds, figures[0].unit,
			o.tabs[0], first.last(memory), o.tabs[len(o.tabs)-1], last.last(memory))
	}
	return printCost(out, o.tabs, results)
}

func printCost(out io.Writer, tabs []int, results map[int]*pair) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "tabs\t\t%s\t%s\tratio\tmin-max\t\n", plain, shared)
	for _, n := range tabs {
		name := fmt.Sprint(n)
		for _, f := range figures {
			results[n].row(w, name, f.unit, f.digits, f.of)
			name = ""
		}
	}
	if first, last := tabs[0], tabs[len(tabs)-1]; first < last {
		name := "each further"
		for _, f := range figures {
			if !f.adds {
				continue
			}
			grown := func(from, to []result) []float64 {
				as, bs := values(from, f.of), values(to, f.of)
				for i := range bs {
					bs[i] = (bs[i] - as[i]) / float64(last-first)
				}
				return bs
			}
			a, b := results[first], results[last]
			printRow(w, name, f.unit, f.digits, grown(a.plain, b.plain), grown(a.other, b.other))
			name = ""
		}
	}
	return w.Flush()
}
