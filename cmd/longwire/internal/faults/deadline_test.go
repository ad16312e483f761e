package faults

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestDeadlineCanBeMovedWhileSomebodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var d deadline
		start := time.Now()
		d.set(start.Add(time.Second))
		passed := d.passed()
		d.set(start.Add(time.Minute))
		<-passed
		if got := time.Since(start); got != time.Minute {
			t.Errorf("passed after %v, want the minute of the later deadline", got)
		}
		d.set(time.Time{})
		if isClosed(d.passed()) {
			t.Error("passed, want none")
		}
		d.set(start)
		synctest.Wait()
		if !isClosed(d.passed()) {
			t.Error("one that lies in the past has not passed")
		}
	})
}
