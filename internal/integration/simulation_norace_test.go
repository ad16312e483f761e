//go:build !race

package integration_test

const schedules = 2000
