package stream_test

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

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
	c := l.Cursor(0, nil)
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
	c := l.Cursor(0, nil)
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
	if _, events := next(t, l.Cursor(0, nil)); !reflect.DeepEqual(events, []string{"before"}) {
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
	signal := make(chan struct{}, 10)
	c := l.Cursor(0, signal)
	next(t, c)
	for range 3 {
		appendEvent(t, l, "x")
	}
	if got := len(signal); got != 1 || !c.Pending() {
		t.Errorf("signals for a burst: %d, pending %v; want 1, true", got, c.Pending())
	}
	next(t, c)
	if c.Pending() {
		t.Error("pending at the head")
	}
	appendEvent(t, l, "x")
	if got := len(signal); got != 2 {
		t.Errorf("signals after it had read everything: %d, want 2", got)
	}
	next(t, c)
	c.Close()
	c.Close()
	appendEvent(t, l, "x")
	if got := len(signal); got != 2 {
		t.Errorf("signals after Close: %d, want 2", got)
	}
}

func TestSeekWakesNobodyButIsPending(t *testing.T) {
	l := stream.NewLog("e", stream.Limits{})
	signal := make(chan struct{}, 10)
	c := l.Cursor(0, signal)
	appendEvent(t, l, "a")
	next(t, c)
	c.Seek(0)
	if !c.Pending() {
		t.Error("not pending after Seek")
	}
	appendEvent(t, l, "b")
	if got := len(signal); got != 0 {
		t.Errorf("signals for a cursor that is behind: %d, want 0", got)
	}
	if from, events := next(t, c); from != 1 || !reflect.DeepEqual(events, []string{"a", "b"}) {
		t.Errorf("Next = %d, %q", from, events)
	}
}

func TestFollowersLeaveInAnyOrder(t *testing.T) {
	for _, order := range [][]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}} {
		l := stream.NewLog("e", stream.Limits{})
		signal := make(chan struct{}, 10)
		var cursors []*stream.Cursor
		for range order {
			c := l.Cursor(0, signal)
			next(t, c)
			cursors = append(cursors, c)
		}
		for i, leaving := range order {
			cursors[leaving].Close()
			appendEvent(t, l, "x")
			if got, want := len(signal), len(order)-1-i; got != want {
				t.Errorf("order %v: %d signals with %d followers left", order, got, want)
			}
			for _, stays := range order[i+1:] {
				<-signal
				next(t, cursors[stays])
			}
		}
	}
}

// inBubble runs one iteration of a property in a bubble of its own. What rapid
// panics with must leave the bubble's goroutine to reach it.
func inBubble(t *testing.T, f func()) {
	t.Helper()
	var panicked any
	synctest.Test(t, func(*testing.T) {
		defer func() { panicked = recover() }()
		f()
	})
	if panicked != nil {
		panic(panicked)
	}
}

type modelEntry struct {
	data string
	at   time.Time
}

// model is the log as a slice of all events ever, and where the bounds cut it.
type model struct {
	limits stream.Limits
	all    []modelEntry
	first  int
}

func (m *model) bounds() (first, head int) {
	for m.first < len(m.all) {
		bytes := int64(0)
		for _, e := range m.all[m.first:] {
			bytes += int64(len(e.data))
		}
		kept := m.all[m.first:]
		if len(kept) <= m.limits.Events && bytes <= m.limits.Bytes && time.Since(kept[0].at) < m.limits.Age {
			break
		}
		m.first++
	}
	return m.first, len(m.all)
}

func TestLogIsASliceWithBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		inBubble(t, func() { checkAgainstModel(rt) })
	})
}

func checkAgainstModel(rt *rapid.T) {
	m := &model{limits: stream.Limits{
		Events: rapid.IntRange(1, 40).Draw(rt, "events"),
		Bytes:  int64(rapid.IntRange(8, 200).Draw(rt, "bytes")),
		Age:    time.Duration(rapid.IntRange(1, 20).Draw(rt, "age")) * time.Second,
	}}
	l := stream.NewLog("e", m.limits)
	signal := make(chan struct{}, 1)
	type reader struct {
		*stream.Cursor
		after int
	}
	var readers []*reader
	pick := func(rt *rapid.T) *reader {
		if len(readers) == 0 {
			rt.Skip("no cursor")
		}
		return rapid.SampledFrom(readers).Draw(rt, "cursor")
	}
	rt.Repeat(map[string]func(*rapid.T){
		"append": func(rt *rapid.T) {
			data := rapid.StringMatching(`[a-z]{0,8}`).Draw(rt, "data")
			seq, err := l.Append([]byte(data))
			m.all = append(m.all, modelEntry{data, time.Now()})
			if int(seq) != len(m.all) || err != nil {
				rt.Fatalf("Append = %d, %v; want %d", seq, err, len(m.all))
			}
		},
		"wait": func(rt *rapid.T) {
			time.Sleep(time.Duration(rapid.IntRange(1, 9000).Draw(rt, "ms")) * time.Millisecond)
		},
		"cursor": func(rt *rapid.T) {
			after := rapid.IntRange(0, len(m.all)+1).Draw(rt, "after")
			readers = append(readers, &reader{l.Cursor(uint64(after), signal), after})
		},
		"seek": func(rt *rapid.T) {
			r := pick(rt)
			after := rapid.IntRange(0, len(m.all)+1).Draw(rt, "after")
			r.Seek(uint64(after))
			r.after = after
		},
		"close": func(rt *rapid.T) {
			r := pick(rt)
			r.Close()
			readers = slices.DeleteFunc(readers, func(other *reader) bool { return other == r })
		},
		"next": func(rt *rapid.T) {
			r := pick(rt)
			budget := rapid.IntRange(0, 60).Draw(rt, "budget")
			after := r.after
			first, head := m.bounds()
			from, data, err := r.Next(nil, budget)
			if after < first || after > head {
				if !errors.Is(err, stream.ErrFellOff) || len(data) != 0 {
					rt.Fatalf("Next at %d of %d..%d = %d events, %v; want ErrFellOff", after, first, head, len(data), err)
				}
				return
			}
			var want [][]byte
			for _, e := range m.all[after:] {
				if budget -= len(e.data); budget < 0 && len(want) > 0 {
					break
				}
				want = append(want, []byte(e.data))
			}
			if err != nil || int(from) != after+1 || fmt.Sprint(data) != fmt.Sprint(want) {
				rt.Fatalf("Next at %d = %d, %q, %v; want %d, %q", after, from, data, err, after+1, want)
			}
			r.after = after + len(want)
		},
		"": func(rt *rapid.T) {
			first, head := m.bounds()
			if f, h := l.Bounds(); int(f) != first || int(h) != head {
				rt.Fatalf("Bounds = %d, %d; want %d, %d", f, h, first, head)
			}
			for _, r := range readers {
				if got := r.After(); int(got) != r.after {
					rt.Fatalf("After = %d, want %d", got, r.after)
				}
				if r.after != head && !r.Pending() {
					rt.Fatalf("a cursor at %d of %d is not pending", r.after, head)
				}
			}
		},
	})
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
			signal := make(chan struct{}, 1)
			c := l.Cursor(0, signal)
			defer c.Close()
			for at := uint64(0); at < writers*each; {
				from, data, err := c.Next(nil, 100)
				if err != nil {
					t.Errorf("at %d: %v", at, err)
					return
				}
				if len(data) == 0 {
					<-signal
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
			signal := make(chan struct{}, 1)
			for range 300 {
				c := l.Cursor(l.Head(), signal)
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
			signal := make(chan struct{}, 1)
			cursors := make([]*stream.Cursor, followers)
			for i := range cursors {
				cursors[i] = l.Cursor(0, signal)
			}
			var buf [][]byte
			data := []byte(strings.Repeat("x", 150))
			b.ReportAllocs()
			for b.Loop() {
				b.StopTimer()
				for _, c := range cursors {
					_, buf, _ = c.Next(buf[:0], 1<<20)
				}
				b.StartTimer()
				if _, err := l.Append(data); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("followers=1000, none has read", func(b *testing.B) {
		l := stream.NewLog("e", stream.Limits{})
		for range 1000 {
			l.Cursor(0, make(chan struct{}, 1))
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
