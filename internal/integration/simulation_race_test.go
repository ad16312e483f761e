//go:build race

package integration_test

// schedules are fewer under the race detector, which makes each several times as
// slow.
const schedules = 500
