package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"text/tabwriter"
)

// table collects results by batch and way, in the order of the rounds.
type table struct {
	batches []int
	got     map[int]map[string][]result
}

func newTable(batches []int) *table {
	t := &table{batches: batches, got: make(map[int]map[string][]result)}
	for _, batch := range append(batches[:len(batches):len(batches)], paced) {
		t.got[batch] = make(map[string][]result)
	}
	return t
}

func (t *table) add(batch int, way string, r result) {
	t.got[batch][way] = append(t.got[batch][way], r)
}

// last is what the last round has brought, for the line of progress.
func (t *table) last(batch int) string {
	got := t.got[batch]
	a, b := got[plain][len(got[plain])-1], got[longwire][len(got[longwire])-1]
	if batch == paced {
		return ""
	}
	return fmt.Sprintf("  %d: %.0f, %.0f, ratio %.2f", batch, a.rate(), b.rate(), b.rate()/a.rate())
}

func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "events of a frame\t\tplain\tlongwire\tratio\tmin-max\t")
	for _, batch := range t.batches {
		t.row(w, strconv.Itoa(batch), "events/s", "%.0f", t.got[batch], result.rate)
		if t.got[batch][plain][0].cpu > 0 {
			t.row(w, "", "us of CPU each", "%.1f", t.got[batch], result.cost)
		}
	}
	a, b := latencies(t.got[paced][plain]), latencies(t.got[paced][longwire])
	for _, p := range []int{50, 99} {
		fmt.Fprintf(w, "1, at %d/s\tlatency p%d, ms\t%.2f\t%.2f\t\t\t\n", pace, p, percentile(a, p), percentile(b, p))
	}
	return w.Flush()
}

// row prints the medians of one figure, and of its ratio within each round.
func (t *table) row(out io.Writer, name, unit, format string, got map[string][]result, figure func(result) float64) {
	var as, bs, ratios []float64
	for i := range got[plain] {
		a, b := figure(got[plain][i]), figure(got[longwire][i])
		as, bs, ratios = append(as, a), append(bs, b), append(ratios, b/a)
	}
	fmt.Fprintf(out, "%s\t%s\t"+format+"\t"+format+"\t%.2f\t%.2f-%.2f\t\n", name, unit,
		median(as), median(bs), median(ratios), slices.Min(ratios), slices.Max(ratios))
}

// latencies returns those of all rounds, sorted.
func latencies(results []result) (all []float64) {
	for _, r := range results {
		all = append(all, r.Latencies...)
	}
	slices.Sort(all)
	return all
}

// percentile returns the value below which p per cent of sorted lie.
func percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}

// median returns the middle one, or the mean of the middle two.
func median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}
