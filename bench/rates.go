package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/longwire/longwire/bench/internal/browser"
	"github.com/longwire/longwire/bench/internal/stats"
)

// cell is one row of the rates: how many tabs, and how many events in a frame.
type cell struct{ tabs, batch int }

// rate is how many events reached the callbacks of all tabs in a second.
func (r result) rate() float64 {
	sum := 0.0
	for _, t := range r.tabs {
		sum += t.Events / t.Seconds
	}
	return sum
}

// cost is the CPU time of an event in a tab, in microseconds.
func (r result) cost() float64 { return r.times.All.Seconds() / r.window.Seconds() * 1e6 / r.rate() }

// measureRates runs the whole schedule in one browser and prints the table.
func measureRates(ctx context.Context, out io.Writer, o options, name string, start browser.Command, against string) error {
	var cells []cell
	for _, tabs := range o.tabs {
		for _, batch := range o.batches {
			cells = append(cells, cell{tabs, batch})
		}
	}
	results := make(map[cell]*pair)
	for _, c := range cells {
		results[c] = &pair{}
	}
	turns := newTurns(o, against)
	fmt.Fprintf(out, "%s, %d rounds of %s for each way\n", name, o.rounds, o.window)
	err := inBrowser(ctx, start, func(ctx context.Context, b *browser.Browser, p *peer) error {
		if _, err := p.tabs.Open(ctx, slices.Max(o.tabs)); err != nil {
			return err
		}
		for round := 1; round <= o.rounds; round++ {
			var line strings.Builder
			for _, c := range cells {
				for _, way := range turns.next() {
					got, err := p.do(ctx, b, task{way, c.tabs, c.batch, o.warmUp, o.window})
					if err != nil {
						return err
					}
					results[c].add(way, got)
				}
				if c.batch != paced {
					fmt.Fprintf(&line, "  %dx%d: %s", c.tabs, c.batch, results[c].last(result.rate))
				}
			}
			fmt.Fprintf(os.Stderr, "round %d of %d, tabs x batch:%s\n", round, o.rounds, line.String())
		}
		return nil
	})
	if err != nil {
		return err
	}
	return printRates(out, against, cells, results)
}

func printRates(out io.Writer, against string, cells []cell, results map[cell]*pair) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(w, "tabs\tevents of a frame\t\t%s\t%s\tratio\tmin-max\t\n", plain, against)
	for _, c := range cells {
		p, name := results[c], fmt.Sprintf("%d\t%d", c.tabs, c.batch)
		if c.batch != paced {
			p.row(w, name, "events/s", 0, result.rate)
			if p.plain[0].times.All > 0 {
				p.row(w, "\t", "us of CPU each", 1, result.cost)
			}
			continue
		}
		a, b := latencies(p.plain), latencies(p.other)
		for _, percent := range []int{50, 99} {
			fmt.Fprintf(w, "%d\t1, at %d/s\tlatency p%d, ms\t%.2f\t%.2f\t\t\t\n", c.tabs, pace, percent,
				stats.Percentile(a, percent), stats.Percentile(b, percent))
		}
	}
	return w.Flush()
}

// latencies returns those of all rounds and tabs, sorted.
func latencies(results []result) (all []float64) {
	for _, r := range results {
		for _, t := range r.tabs {
			all = append(all, t.Latencies...)
		}
	}
	slices.Sort(all)
	return all
}

// pair has the results of both ways, in the order of the rounds.
type pair struct {
	plain, other []result
}

func (p *pair) add(way string, r result) {
	if way == plain {
		p.plain = append(p.plain, r)
	} else {
		p.other = append(p.other, r)
	}
}

// last is what the last round has brought, for the line of progress.
func (p *pair) last(figure func(result) float64) string {
	a, b := figure(p.plain[len(p.plain)-1]), figure(p.other[len(p.other)-1])
	return fmt.Sprintf("%.0f, %.0f, ratio %.2f", a, b, b/a)
}

// row prints the medians of one figure, and of its ratio within each round.
func (p *pair) row(out io.Writer, name, unit string, digits int, figure func(result) float64) {
	as, bs := values(p.plain, figure), values(p.other, figure)
	printRow(out, name, unit, digits, as, bs)
}

func values(results []result, figure func(result) float64) (all []float64) {
	for _, r := range results {
		all = append(all, figure(r))
	}
	return all
}

// printRow prints the medians of two ways, and of their ratio within each round.
func printRow(out io.Writer, name, unit string, digits int, as, bs []float64) {
	ratios := make([]float64, len(as))
	for i := range as {
		ratios[i] = bs[i] / as[i]
	}
	number := func(v float64) string { return strconv.FormatFloat(v, 'f', digits, 64) }
	fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%.2f\t%.2f-%.2f\t\n", name, unit,
		number(stats.Median(as)), number(stats.Median(bs)), stats.Median(ratios), slices.Min(ratios), slices.Max(ratios))
}
