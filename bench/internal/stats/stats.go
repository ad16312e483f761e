// Package stats has the few statistics that the benchmarks print.
package stats

import "slices"

// Median returns the middle one, or the mean of the middle two.
func Median(values []float64) float64 {
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Percentile returns the value below which p per cent of sorted lie, 0 of none.
func Percentile(sorted []float64, p int) float64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(len(sorted)*p/100, len(sorted)-1)]
}
