package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/longwire/longwire/bench/internal/stats"
)

// table collects figures of the ways, round by round.
type table struct {
	ways []way
	rows []*row
}

// row is one figure of one way.
type row struct {
	figure, way string
	digits      int
	values      []float64
}

// add notes what a round has brought.
func (t *table) add(figure string, digits int, way string, value float64) {
	r := t.row(figure, way)
	if r == nil {
		r = &row{figure: figure, way: way, digits: digits}
		t.rows = append(t.rows, r)
	}
	r.values = append(r.values, value)
}

func (t *table) row(figure, way string) *row {
	i := slices.IndexFunc(t.rows, func(r *row) bool { return r.figure == figure && r.way == way })
	if i < 0 {
		return nil
	}
	return t.rows[i]
}

// print prints the median of each figure over the rounds, and how many times the way's
// Longwire's figure of the same round is: the median, and the extremes.
func (t *table) print(out io.Writer) error {
	var figures []string
	for _, r := range t.rows {
		if !slices.Contains(figures, r.figure) {
			figures = append(figures, r.figure)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\t\tmedian\tLongwire's is\tmin-max\n")
	for _, figure := range figures {
		ours := t.row(figure, longwire)
		name := figure
		for _, one := range t.ways {
			r := t.row(figure, one.name)
			if r == nil {
				continue
			}
			fmt.Fprintf(w, "%s\t%s\t%.*f\t%s\n", name, one.name, r.digits, stats.Median(r.values), ratio(ours, r))
			name = ""
		}
	}
	return w.Flush()
}

func ratio(ours, theirs *row) string {
	if ours == nil || ours == theirs || slices.Contains(theirs.values, 0) {
		return "\t"
	}
	ratios := make([]float64, len(theirs.values))
	for i, value := range theirs.values {
		ratios[i] = ours.values[i] / value
	}
	return fmt.Sprintf("%.2f x\t%.2f-%.2f", stats.Median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// heading sets the title of a table apart.
func heading(out io.Writer, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(out, "\n%s\n%s\n", text, strings.Repeat("-", len(text)))
}
