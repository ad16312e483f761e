//go:build race

package hub_test

// Under the race detector, which makes each several times as slow, schedules are
// fewer, and rules are not left out: that takes many.
const (
	schedules  = 1_000
	leaveRules = false
)
