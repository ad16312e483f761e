package stream

import "slices"

// Notifier is told when logs have grown, for all the readers that it serves.
type Notifier interface {
	// Notify says that some of w are to be woken. Whoever serves them then calls w.Take
	// until there are no more; until that is done it is not told of w again. An append
	// calls it and holds the log's lock: it must not block, nor call the log, its cursors
	// or w.
	Notify(w *Waiters)
}

// Signal is a Notifier for a reader of its own: it is sent the Waiters to be taken,
// each at most once until that is done. Make it with room for each log that the reader
// follows; what finds no room is lost.
type Signal chan *Waiters

// Notify implements Notifier.
func (s Signal) Notify(w *Waiters) {
	select {
	case s <- w:
	default:
	}
}

// Waiters are the readers of one log that have read everything and share a notifier.
// An append costs the same however many they are.
type Waiters struct {
	log      *Log
	notifier Notifier

	// Guarded by log.mu.
	cursors int       // with this notifier, not closed
	caught  []*Cursor // that have read everything
	woken   []*Cursor // had, until an append, and were not taken since
	grown   bool      // caught has some that have not read everything any more
	told    bool      // the notifier, and it has not taken all
}

// Take appends up to n readers that are to be woken to dst. more reports whether to
// call it again.
func (w *Waiters) Take(dst []any, n int) (readers []any, more bool) {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if len(w.woken) == 0 && w.grown {
		w.caught, w.woken, w.grown = w.woken, w.caught, false
	}
	for ; n > 0 && len(w.woken) > 0; n-- {
		last := len(w.woken) - 1
		c := w.woken[last]
		w.woken[last] = nil
		w.woken = w.woken[:last]
		switch {
		case c.waiters == nil || c.isListed():
			// Closed, or at the head again.
		case !c.Pending():
			c.list() // it came while the others were being taken
		default:
			dst = append(dst, c.reader)
		}
	}
	w.told = len(w.woken) > 0 || w.grown
	if !w.told && cap(w.woken) > keptWaiters {
		w.woken = nil
	}
	return dst, w.told
}

// Followers returns how many cursors of the log share the notifier, those that have not
// read everything included.
func (w *Waiters) Followers() int {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.cursors
}

// keptWaiters is room that is kept for the next time.
const keptWaiters = 1 << 12

// grow needs log.mu.
func (w *Waiters) grow() {
	if len(w.caught) == 0 {
		return
	}
	w.grown = true
	if !w.told {
		w.told = true
		w.notifier.Notify(w)
	}
}

// waitersOf returns the waiters with a notifier, for one more cursor. It needs l.mu.
func (l *Log) waitersOf(n Notifier) *Waiters {
	i := slices.IndexFunc(l.waiters, func(w *Waiters) bool { return w.notifier == n })
	if i < 0 {
		i = len(l.waiters)
		l.waiters = append(l.waiters, &Waiters{log: l, notifier: n})
	}
	l.waiters[i].cursors++
	return l.waiters[i]
}

// forget undoes waitersOf. It needs log.mu.
func (w *Waiters) forget() {
	if w.cursors--; w.cursors == 0 {
		w.log.waiters = slices.DeleteFunc(w.log.waiters, func(other *Waiters) bool { return other == w })
	}
}
