package faults

import (
	"sync"
	"time"
)

// A deadline is a time that a select can wait for, and that can be moved
// meanwhile. The zero value is none.
type deadline struct {
	mu    sync.Mutex
	timer *time.Timer
	done  chan struct{} // closed when it has passed
}

// set moves the deadline; the zero time removes it. Who waits for an earlier one
// that had not passed goes on waiting for this one.
func (d *deadline) set(t time.Time) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timer != nil && !d.timer.Stop() {
		<-d.done // the timer closes it
	}
	d.timer = nil
	if d.done == nil || isClosed(d.done) {
		d.done = make(chan struct{})
	}
	if t.IsZero() {
		return
	}
	done := d.done
	d.timer = time.AfterFunc(max(0, time.Until(t)), func() { close(done) })
}

func (d *deadline) passed() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.done == nil {
		d.done = make(chan struct{})
	}
	return d.done
}

func isClosed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}
