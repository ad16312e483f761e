package stream_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/stream"
)

// notifier holds what it was told.
type notifier chan *stream.Waiters

func newNotifier() notifier { return make(notifier, 1000) }

func (b notifier) Notify(w *stream.Waiters) { b <- w }

// woken takes all that are to be woken, a few at a time.
func (b notifier) woken() (readers []any) {
	for len(b) > 0 {
		w := <-b
		for more := true; more; {
			readers, more = w.Take(readers, 2)
		}
	}
	return readers
}

// Whoever has read everything is woken by the next append, once, however reading,
// seeking, closing and taking meet; nobody is lost, whoever closed is left alone, and
// no notifier is told again before all was taken.
func TestEachWaiterIsWokenOnceByWhatIsNew(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const bells = 2
		l := stream.NewLog("e", stream.Limits{})
		type reader struct {
			cursor *stream.Cursor
			bell   int
			asleep bool // listed to be woken
			due    bool // an append has come since
		}
		var rings [bells]notifier
		var taking [bells]*stream.Waiters
		for i := range rings {
			rings[i] = newNotifier()
		}
		var readers []*reader
		head := uint64(0)
		take := func(i, n int) {
			if taking[i] == nil && len(rings[i]) > 0 {
				taking[i] = <-rings[i]
			}
			if taking[i] == nil {
				return
			}
			woken, more := taking[i].Take(nil, n)
			if len(woken) > n {
				rt.Fatalf("%d taken, at most %d wanted", len(woken), n)
			}
			for _, w := range woken {
				r := w.(*reader)
				if !slices.Contains(readers, r) || r.bell != i {
					rt.Fatal("a reader was woken that has closed, or by another notifier")
				}
				if !r.cursor.Pending() {
					rt.Fatal("a reader was woken for nothing")
				}
				r.asleep, r.due = false, false
			}
			if !more {
				taking[i] = nil
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"append": func(rt *rapid.T) {
				if _, err := l.Append([]byte("x")); err != nil {
					rt.Fatal(err)
				}
				head++
				for _, r := range readers {
					r.due = r.asleep
				}
			},
			"join": func(rt *rapid.T) {
				r := &reader{bell: rapid.IntRange(0, bells-1).Draw(rt, "bell")}
				r.cursor = l.Cursor(head, rings[r.bell], r)
				readers = append(readers, r)
			},
			"read": func(rt *rapid.T) {
				if len(readers) == 0 {
					return
				}
				r := rapid.SampledFrom(readers).Draw(rt, "reader")
				if _, _, err := r.cursor.Next(nil, rapid.IntRange(1, 3).Draw(rt, "budget")); err != nil {
					rt.Fatal(err)
				}
				if r.cursor.After() == head {
					r.asleep, r.due = true, false
				}
			},
			"seek": func(rt *rapid.T) {
				if len(readers) > 0 {
					r := rapid.SampledFrom(readers).Draw(rt, "reader")
					r.cursor.Seek(rapid.Uint64Range(0, head).Draw(rt, "after"))
					r.asleep, r.due = false, false
				}
			},
			"close": func(rt *rapid.T) {
				if len(readers) > 0 {
					n := rapid.IntRange(0, len(readers)-1).Draw(rt, "reader")
					readers[n].cursor.Close()
					readers = slices.Delete(readers, n, n+1)
				}
			},
			"take": func(rt *rapid.T) {
				take(rapid.IntRange(0, bells-1).Draw(rt, "bell"), rapid.IntRange(1, 3).Draw(rt, "n"))
			},
			"": func(rt *rapid.T) {
				for i, b := range rings {
					told := map[*stream.Waiters]bool{taking[i]: true}
					for range len(b) {
						w := <-b
						if told[w] {
							rt.Fatal("told again before all was taken")
						}
						told[w] = true
						b <- w
					}
				}
				for _, r := range readers {
					due := r.cursor.After() != head
					if due && !r.cursor.Pending() {
						rt.Fatal("a reader that is behind is not pending")
					}
					if r.due && taking[r.bell] == nil && len(rings[r.bell]) == 0 {
						rt.Fatal("a reader is to be woken, and nobody was told")
					}
				}
			},
		})
		for i := range rings {
			for taking[i] != nil || len(rings[i]) > 0 {
				take(i, 3)
			}
		}
		for _, r := range readers {
			if r.due {
				rt.Fatal("a reader was never woken")
			}
		}
	})
}

func TestFollowersAreAllCursorsOfTheNotifier(t *testing.T) {
	l, one, other := stream.NewLog("e", stream.Limits{}), newNotifier(), newNotifier()
	asleep, behind := l.Cursor(0, one, nil), l.Cursor(0, one, nil)
	l.Cursor(0, other, nil)
	if _, _, err := asleep.Next(nil, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Append([]byte("x")); err != nil {
		t.Fatal(err)
	}
	w := <-one
	if n := w.Followers(); n != 2 {
		t.Errorf("%d followers, want 2: one who had read everything, and one who had not", n)
	}
	behind.Close()
	if n := w.Followers(); n != 1 {
		t.Errorf("%d followers when one has closed, want 1", n)
	}
}
