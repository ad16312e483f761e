//go:build !race

package hub_test

const (
	schedules  = 20_000
	leaveRules = true
)
