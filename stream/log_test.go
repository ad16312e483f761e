package stream_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/stream"
)

func appendEvent(t *testing.T, l *stream.Log, data string) uint64 {
	t.Helper()
	seq, err := l.Append([]byte(data))
	if err != nil {
		t.Fatalf("Append(%q): %v", data, err)
	}
	return seq
}

// next is Next without a budget, as strings.
func next(t *testing.T, c *stream.Cursor) (from uint64, events []string) {
	t.Helper()
	from, data, err := c.Next(nil, 1<<30)
	if err != nil {
		t.Fatalf("Next at %d: %v", c.After(), err)
	}
	for _, d := range data {
		events = append(events, string(d))
	}
	return from, events
}

func TestHeadOutlivesTheEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := stream.NewLog("e", stream.Limits{Age: time.Minute})
		for i := range 3 {
			appendEvent(t, l, fmt.Sprint(i))
		}
		time.Sleep(time.Minute)
		if first, head := l.Bounds(); first != 3 || head != 3 {
			t.Errorf("Bounds = %d, %d; want 3, 3", first, head)
		}
		for after, want := range map[uint64]bool{2: false, 3: true, 4: false} {
			if got := l.Covers("e", after); got != want {
				t.Errorf("Covers(e, %d) = %v, want %v", after, got, want)
			}
		}
		if seq := appendEvent(t, l, "next"); seq != 4 {
			t.Errorf("number after the silence: %d, want 4", seq)
		}
	})
}

func TestZeroIsAPosition(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{})
	if !l.Covers("e", 0) || l.Covers("other", 0) {
		t.Error("an empty log covers 0 of its own epoch, and nothing else")
	}
	c := l.Cursor(0, nil, nil)
	appendEvent(t, l, "a")
	if from, events := next(t, c); from != 1 || !reflect.DeepEqual(events, []string{"a"}) {
		t.Errorf("Next = %d, %q; want 1, [a]", from, events)
	}
}

func TestNextKeepsItsBudgetButReadsAtLeastOne(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{})
	for _, data := range []string{"1234567890", "12", "34", "56"} {
		appendEvent(t, l, data)
	}
	c := l.Cursor(0, nil, nil)
	for _, want := range []int{1, 2, 1, 0} {
		_, events, err := c.Next(nil, 5)
		if len(events) != want || err != nil {
			t.Errorf("Next(5) read %d events, %v; want %d", len(events), err, want)
		}
	}
}

func TestEventBeyondTheBoundIsRefused(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{Bytes: 4})
	if _, err := l.Append([]byte("12345")); !errors.Is(err, stream.ErrTooLarge) || !strings.Contains(err.Error(), "5 bytes, at most 4") {
		t.Errorf("Append = %v", err)
	}
	if seq := appendEvent(t, l, "1234"); seq != 1 {
		t.Errorf("number after a refusal: %d, want 1", seq)
	}
}

func TestAppendCopies(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{})
	data := []byte("before")
	if _, err := l.Append(data); err != nil {
		t.Fatal(err)
	}
	copy(data, "after!")
	if _, events := next(t, l.Cursor(0, nil, nil)); !reflect.DeepEqual(events, []string{"before"}) {
		t.Errorf("read %q", events)
	}
}

func TestLimitsNameWhatIsWrong(t *testing.T) {
	if err := (stream.Limits{}).Validate(); err != nil {
		t.Errorf("zero limits: %v", err)
	}
	err := stream.Limits{Events: -1, Bytes: -2, Age: -3}.Validate()
	for _, want := range []string{"Events: -1", "Bytes: -2", "Age: -3ns"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Validate = %v, want it to name %q", err, want)
		}
	}
}

func TestFollowerIsToldOnceUntilItHasReadEverything(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{})
	bell := newNotifier()
	c := l.Cursor(0, bell, "reader")
	next(t, c)
	for range 3 {
		appendEvent(t, l, "x")
	}
	if got := bell.woken(); !reflect.DeepEqual(got, []any{"reader"}) || !c.Pending() {
		t.Errorf("woken for a burst: %v, pending %v; want the reader once, true", got, c.Pending())
	}
	appendEvent(t, l, "x")
	if got := bell.woken(); got != nil {
		t.Errorf("woken again before it has read: %v", got)
	}
	next(t, c)
	if c.Pending() {
		t.Error("pending at the head")
	}
	appendEvent(t, l, "x")
	if got := bell.woken(); len(got) != 1 {
		t.Errorf("woken after it had read everything: %v, want it once", got)
	}
	next(t, c)
	c.Close()
	c.Close()
	appendEvent(t, l, "x")
	if got := bell.woken(); got != nil || c.Pending() {
		t.Errorf("woken after Close: %v, pending %v", got, c.Pending())
	}
}

func TestSeekWakesNobodyButIsPending(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{})
	bell := newNotifier()
	c := l.Cursor(0, bell, "reader")
	appendEvent(t, l, "a")
	next(t, c)
	c.Seek(0)
	if !c.Pending() {
		t.Error("not pending after Seek")
	}
	appendEvent(t, l, "b")
	if got := bell.woken(); got != nil {
		t.Errorf("woken although it is behind: %v", got)
	}
	if from, events := next(t, c); from != 1 || !reflect.DeepEqual(events, []string{"a", "b"}) {
		t.Errorf("Next = %d, %q", from, events)
	}
}

func TestFollowersLeaveInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		l := stream.NewLog("e", stream.Limits{})
		bell := newNotifier()
		var cursors []*stream.Cursor
		for n := range order {
			c := l.Cursor(0, bell, n)
			next(t, c)
			cursors = append(cursors, c)
		}
		cursors[order[0]].Close()
		cursors[order[1]].Close()
		appendEvent(t, l, "x")
		if got := bell.woken(); !reflect.DeepEqual(got, []any{order[2]}) || !cursors[order[2]].Pending() {
			t.Errorf("order %v: %v woken with one follower left", order, got)
		}
	}
}

func TestManyWritersAndReaders(t *testing.T) {
	const writers, each, readers = 8, 2000, 20
	l := stream.NewLog("e", stream.Limits{Events: writers * each})
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for range each {
				appendEvent(t, l, "x")
			}
		})
	}
	for range readers {
		wg.Go(func() {
			bell := newNotifier()
			c := l.Cursor(0, bell, nil)
			defer c.Close()
			for at := uint64(0); at < writers*each; {
				from, data, err := c.Next(nil, 100)
				if err != nil {
					t.Errorf("at %d: %v", at, err)
					return
				}
				if len(data) == 0 {
					(<-bell).Take(nil, 1)
					continue
				}
				if from != at+1 {
					t.Errorf("at %d read %d", at, from)
					return
				}
				at += uint64(len(data))
			}
		})
	}
	wg.Wait()
}

func TestReadersComeAndGoWhileOthersAppend(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{Events: 10})
	stop := make(chan struct{})
	var writers, readers sync.WaitGroup
	for range 2 {
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					appendEvent(t, l, "x")
				}
			}
		})
	}
	for range 8 {
		readers.Go(func() {
			for range 300 {
				c := l.Cursor(l.Head(), newNotifier(), nil)
				at := c.After()
				for range 5 {
					from, data, err := c.Next(nil, 3)
					if errors.Is(err, stream.ErrFellOff) {
						at = l.Head()
						c.Seek(at)
						continue
					}
					if len(data) > 0 && from != at+1 {
						t.Errorf("at %d read %d", at, from)
					}
					at += uint64(len(data))
				}
				c.Close()
			}
		})
	}
	readers.Wait()
	close(stop)
	writers.Wait()
}

func BenchmarkAppend(b *testing.B) {
	for _, followers := range []int{0, 1, 1000} {
		b.Run(fmt.Sprintf("followers=%d", followers), func(b *testing.B) {
			l := stream.NewLog("e", stream.Limits{})
			bell := newNotifier()
			cursors := make([]*stream.Cursor, followers)
			for i := range cursors {
				cursors[i] = l.Cursor(0, bell, nil)
			}
			var buf [][]byte
			data := []byte(strings.Repeat("x", 150))
			// Timed here: to stop the timer takes longer than to append.
			var spent time.Duration
			for b.Loop() {
				bell.woken()
				for _, c := range cursors {
					_, buf, _ = c.Next(buf[:0], 1<<20)
				}
				begun := time.Now()
				if _, err := l.Append(data); err != nil {
					b.Fatal(err)
				}
				spent += time.Since(begun)
			}
			b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N), "ns/append")
		})
	}
	b.Run("followers=1000, none has read", func(b *testing.B) {
		l := stream.NewLog("e", stream.Limits{})
		bell := newNotifier()
		for range 1000 {
			l.Cursor(0, bell, nil)
		}
		data := []byte(strings.Repeat("x", 150))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := l.Append(data); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkNext reads what was appended, a batch at a time.
func BenchmarkNext(b *testing.B) {
	data := []byte(strings.Repeat("x", 150))
	for _, batch := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("events=%d", batch), func(b *testing.B) {
			l := stream.NewLog("e", stream.Limits{})
			for range batch {
				if _, err := l.Append(data); err != nil {
					b.Fatal(err)
				}
			}
			c := l.Cursor(0, newNotifier(), nil)
			var buf [][]byte
			b.ReportAllocs()
			for b.Loop() {
				c.Seek(0)
				var err error
				if _, buf, err = c.Next(buf[:0], 1<<20); err != nil || len(buf) != batch {
					b.Fatalf("got %d events, %v", len(buf), err)
				}
			}
		})
	}
}
