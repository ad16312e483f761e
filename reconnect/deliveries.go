//go:build !js

package reconnect

import "sync"

// deliveries is the queue between the loop and the handlers of the application,
// so that a slow handler holds up neither timers nor pongs. Above maxDeliveries
// the loop stops reading from the socket: that is the bound, and the back-pressure.
type deliveries struct {
	mu    sync.Mutex
	queue []func()
	ended bool
	more  chan struct{} // 1-buffered: the queue has grown, or ended
	room  chan struct{} // 1-buffered: the queue is short again
}

const maxDeliveries = 256 // frames

func newDeliveries() deliveries {
	return deliveries{more: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

// add queues fn and reports whether the queue is full now.
func (d *deliveries) add(fn func()) (full bool) {
	d.mu.Lock()
	d.queue = append(d.queue, fn)
	full = len(d.queue) >= maxDeliveries
	d.mu.Unlock()
	signal(d.more)
	return full
}

// finish makes run return once the queue is empty.
func (d *deliveries) finish() {
	d.mu.Lock()
	d.ended = true
	d.mu.Unlock()
	signal(d.more)
}

// take returns the head of the queue, nil for none, and whether nothing more
// will come. The end is handed out once: the next run starts anew.
func (d *deliveries) take() (fn func(), ended bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) == 0 {
		ended, d.ended = d.ended, false
		return nil, ended
	}
	fn, d.queue[0] = d.queue[0], nil
	d.queue = d.queue[1:]
	return fn, false
}

// run calls the handlers until finish.
func (d *deliveries) run() {
	for {
		fn, ended := d.take()
		switch {
		case ended:
			return
		case fn == nil:
			<-d.more
		default:
			fn()
			signal(d.room)
		}
	}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
