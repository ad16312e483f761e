//go:build linux

package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"text/tabwriter"

	"github.com/longwire/longwire/bench/internal/stats"
)

// table collects the figures of two sides, round by round.
type table struct {
	base, other string // the sides
	rows        []*row
}

// row is one figure.
type row struct {
	name, unit  string
	format      string // of a value
	budget      string // what the design wants, empty: nothing in particular
	base, other []float64
}

// add notes what a round has brought for a row, which tells itself from the others by
// its name and unit.
func (t *table) add(r row, base, other float64) {
	i := slices.IndexFunc(t.rows, func(old *row) bool { return old.name == r.name && old.unit == r.unit })
	if i < 0 {
		i = len(t.rows)
		t.rows = append(t.rows, &r)
	}
	t.rows[i].base = append(t.rows[i].base, base)
	t.rows[i].other = append(t.rows[i].other, other)
}

// print prints the median of both sides over the rounds, and of their ratio within
// each round, with its extremes.
func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "\t\t%s\t%s\tratio\tmin-max\tbudget\n", t.base, t.other)
	for _, r := range t.rows {
		ratios := make([]float64, len(r.base))
		for i := range ratios {
			ratios[i] = r.other[i] / r.base[i]
		}
		fmt.Fprintf(w, "%s\t%s\t"+r.format+"\t"+r.format+"\t%.3g\t%.3g-%.3g\t%s\n", r.name, r.unit,
			stats.Median(r.base), stats.Median(r.other), stats.Median(ratios), slices.Min(ratios), slices.Max(ratios), r.budget)
	}
	return w.Flush()
}

// How a figure grows.
const (
	constant = "constant"
	linear   = "linear"
	faster   = "faster than linear"
)

// growth collects figures at each of some sizes, round by round.
type growth struct {
	sizes []int
	rows  []*growthRow
}

// figure is what is measured.
type figure struct {
	name, unit string
	format     string // of a value
	budget     string // how it should grow
}

type growthRow struct {
	figure
	values [][]float64 // of each size, by round
}

// add notes a value for the i-th size.
func (g *growth) add(f figure, i int, value float64) {
	at := slices.IndexFunc(g.rows, func(old *growthRow) bool { return old.figure == f })
	if at < 0 {
		at = len(g.rows)
		g.rows = append(g.rows, &growthRow{f, make([][]float64, len(g.sizes))})
	}
	g.rows[at].values[i] = append(g.rows[at].values[i], value)
}

// print prints the medians over the rounds, and how many times as much each figure is
// at the last size as at a tenth of it, in the same round.
func (g *growth) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\t\t")
	for _, size := range g.sizes {
		fmt.Fprintf(w, "%d\t", size)
	}
	fmt.Fprint(w, "per tenfold\tmin-max\tgrowth\tbudget\n")
	for _, r := range g.rows {
		fmt.Fprintf(w, "%s\t%s\t", r.name, r.unit)
		for _, values := range r.values {
			fmt.Fprintf(w, r.format+"\t", stats.Median(values))
		}
		ratios := g.perTenfold(r.values)
		m := stats.Median(ratios)
		fmt.Fprintf(w, "%.3g\t%.3g-%.3g\t%s\t%s\n", m, slices.Min(ratios), slices.Max(ratios), nameGrowth(m), r.budget)
	}
	return w.Flush()
}

// perTenfold returns, for each round, the ratio of a figure at the last size to that at
// a tenth of it: at smaller ones what does not grow would hide what does. Where there is
// no such size it is that of a tenfold from the first on.
func (g *growth) perTenfold(values [][]float64) []float64 {
	last := len(g.sizes) - 1
	tenth := 0
	for i, size := range g.sizes {
		if size*10 <= g.sizes[last] {
			tenth = i
		}
	}
	tenfolds := math.Log10(float64(g.sizes[last]) / float64(g.sizes[tenth]))
	ratios := make([]float64, len(values[last]))
	for i := range ratios {
		ratios[i] = math.Pow(values[last][i]/values[tenth][i], 1/tenfolds)
	}
	return ratios
}

// nameGrowth names what a figure does that grows so many times with each tenfold. A
// machine's noise is not growth.
func nameGrowth(perTenfold float64) string {
	switch {
	case perTenfold < 2:
		return constant
	case perTenfold < 15:
		return linear
	}
	return faster
}
