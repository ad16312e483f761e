//go:build linux

package main

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
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
			median(r.base), median(r.other), median(ratios), slices.Min(ratios), slices.Max(ratios), r.budget)
	}
	return w.Flush()
}

// median returns the middle one, or the mean of the middle two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
