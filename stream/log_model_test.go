package stream_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/stream"
)

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
		kept, bytes := m.all[m.first:], int64(0)
		for _, e := range kept {
			bytes += int64(len(e.data))
		}
		if len(kept) <= m.limits.Events && bytes <= m.limits.Bytes && time.Since(kept[0].at) < m.limits.Age {
			break
		}
		m.first++
	}
	return m.first, len(m.all)
}

// step is one call on the log, drawn before the bubble in which it is made. The
// arguments are reduced to what is valid at that moment.
type step struct {
	do     string
	cursor int
	n      int
	data   string
}

func steps() *rapid.Generator[[]step] {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) step {
		return step{
			do:     rapid.SampledFrom([]string{"append", "append", "wait", "cursor", "seek", "close", "next", "next", "restore"}).Draw(t, "do"),
			cursor: rapid.IntRange(0, 5).Draw(t, "cursor"),
			n:      rapid.IntRange(0, 60).Draw(t, "n"),
			data:   rapid.StringMatching(`[a-z]{0,8}`).Draw(t, "data"),
		}
	}), 1, 80)
}

func TestLogIsASliceWithBounds(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		run := modelRun{m: model{limits: stream.Limits{
			Events: rapid.IntRange(1, 40).Draw(rt, "events"),
			Bytes:  int64(rapid.IntRange(8, 200).Draw(rt, "bytes")),
			Age:    time.Duration(rapid.IntRange(1, 20).Draw(rt, "age")) * time.Second,
		}}}
		schedule := steps().Draw(rt, "steps")
		var err error
		synctest.Test(t, func(*testing.T) { err = run.all(schedule) })
		if err != nil {
			rt.Fatal(err)
		}
	})
}

type modelReader struct {
	*stream.Cursor
	after int
}

type modelRun struct {
	m       model
	log     *stream.Log
	readers []*modelReader
	bell    notifier
}

func (r *modelRun) all(schedule []step) error {
	r.log, r.bell = stream.NewLog("e", r.m.limits), newNotifier()
	for i, s := range schedule {
		err := r.step(s)
		if err == nil {
			err = r.check()
		}
		if err != nil {
			return fmt.Errorf("step %d, %+v: %w", i, s, err)
		}
	}
	return nil
}

func (r *modelRun) step(s step) error {
	position := s.n % (len(r.m.all) + 2)
	switch s.do {
	case "append":
		seq, err := r.log.Append([]byte(s.data))
		r.m.all = append(r.m.all, modelEntry{s.data, time.Now()})
		if int(seq) != len(r.m.all) || err != nil {
			return fmt.Errorf("Append = %d, %w; want %d", seq, err, len(r.m.all))
		}
	case "wait":
		time.Sleep(time.Duration(s.n) * 100 * time.Millisecond)
	case "restore":
		return r.restore(s)
	case "cursor":
		reader := &modelReader{after: position}
		reader.Cursor = r.log.Cursor(uint64(position), r.bell, reader)
		r.readers = append(r.readers, reader)
	}
	if len(r.readers) == 0 {
		return nil
	}
	reader := r.readers[s.cursor%len(r.readers)]
	switch s.do {
	case "seek":
		reader.Seek(uint64(position))
		reader.after = position
	case "close":
		reader.Close()
		r.readers = slices.DeleteFunc(r.readers, func(other *modelReader) bool { return other == reader })
	case "next":
		return r.next(reader, s.n)
	}
	return nil
}

func (r *modelRun) next(reader *modelReader, budget int) error {
	first, head := r.m.bounds()
	after := reader.after
	from, data, err := reader.Next(nil, budget)
	if after < first || after > head {
		if !errors.Is(err, stream.ErrFellOff) || len(data) != 0 {
			return fmt.Errorf("Next at %d of %d..%d = %d events, %w; want ErrFellOff", after, first, head, len(data), err)
		}
		return nil
	}
	var want [][]byte
	for _, e := range r.m.all[after:] {
		if budget -= len(e.data); budget < 0 && len(want) > 0 {
			break
		}
		want = append(want, []byte(e.data))
	}
	if err != nil || int(from) != after+1 || !slices.EqualFunc(data, want, slices.Equal[[]byte]) {
		return fmt.Errorf("Next at %d = %d, %q, %w; want %d, %q", after, from, data, err, after+1, want)
	}
	reader.after += len(want)
	return nil
}

func (r *modelRun) check() error {
	first, head := r.m.bounds()
	if f, h := r.log.Bounds(); int(f) != first || int(h) != head {
		return fmt.Errorf("Bounds = %d, %d; want %d, %d", f, h, first, head)
	}
	for i, reader := range r.readers {
		if got := reader.After(); int(got) != reader.after {
			return fmt.Errorf("reader %d: After = %d, want %d", i, got, reader.after)
		}
		if reader.after != head && !reader.Pending() {
			return fmt.Errorf("reader %d at %d of %d is not pending", i, reader.after, head)
		}
	}
	return nil
}
