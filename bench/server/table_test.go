//go:build linux

package main

import (
	"math"
	"testing"
)

// TestGrowthIsThatOfTheLastTenfold gives costs that grow in each way, beside a fixed one
// that hides it at small sizes.
func TestGrowthIsThatOfTheLastTenfold(t *testing.T) {
	tests := []struct {
		sizes []int
		cost  func(size float64) float64
		ratio float64
		want  string
	}{
		{[]int{1, 10, 100, 1000}, func(float64) float64 { return 7 }, 1, constant},
		{[]int{1, 10, 100, 1000}, func(n float64) float64 { return 100 + n }, 5.5, linear},
		{[]int{1000, 5000, 10_000}, func(n float64) float64 { return 3 * n }, 10, linear},
		{[]int{1, 100}, func(n float64) float64 { return n }, 10, linear},
		{[]int{10, 100}, func(n float64) float64 { return n * n }, 100, faster},
	}
	for _, test := range tests {
		g := &growth{sizes: test.sizes}
		for i, size := range test.sizes {
			g.add(figure{name: "cost"}, i, test.cost(float64(size)))
		}
		got := g.perTenfold(g.rows[0].values)[0]
		if math.Abs(got-test.ratio) > 1e-9 || nameGrowth(got) != test.want {
			t.Errorf("%v: %.2f per tenfold, %s; want %.2f, %s", test.sizes, got, nameGrowth(got), test.ratio, test.want)
		}
	}
}
