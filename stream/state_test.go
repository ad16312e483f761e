package stream_test

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/stream"
)

// restore moves the log into another one, which may have smaller or larger bounds,
// and takes its time over it.
func (r *modelRun) restore(s step) error {
	r.m.bounds() // what is beyond them now does not come back with larger ones
	r.log.Seal()
	state := r.log.State()
	if seq, err := r.log.Append([]byte(s.data)); seq != 0 || !errors.Is(err, stream.ErrSealed) {
		return fmt.Errorf("Append to a sealed log = %d, %w; want ErrSealed", seq, err)
	}
	downtime := time.Duration(s.n) * 100 * time.Millisecond
	time.Sleep(downtime)
	if downtime == 0 {
		downtime = -time.Hour // a wall clock that went back
	}
	r.m.limits.Events = max(1, r.m.limits.Events+s.cursor-2)
	r.m.limits.Bytes = max(8, r.m.limits.Bytes+int64(s.n)-30)
	restored, err := stream.Restore(state, downtime, r.m.limits)
	if err != nil {
		return err
	}
	if restored.Epoch() != r.log.Epoch() {
		return fmt.Errorf("Epoch = %q, want %q", restored.Epoch(), r.log.Epoch())
	}
	r.log = restored
	for _, reader := range r.readers { // each comes back with its position
		reader.Close()
		reader.Cursor = r.log.Cursor(uint64(reader.after), r.bell, reader)
	}
	return nil
}

func TestHeadOutlivesARestoreWithoutEntries(t *testing.T) {
	l, err := stream.Restore(stream.State{
		Epoch: "e", Head: 7, Entries: []stream.Entry{{Data: []byte("a"), Age: time.Minute}},
	}, time.Hour, stream.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if first, head := l.Bounds(); first != 7 || head != 7 || !l.Covers("e", 7) {
		t.Errorf("Bounds = %d, %d, Covers(e, 7) = %v; want 7, 7, true", first, head, l.Covers("e", 7))
	}
	if seq := appendEvent(t, l, "next"); seq != 8 {
		t.Errorf("number after it: %d, want 8", seq)
	}
}

func TestStateHoldsWhatTheLogDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := stream.NewLog("e", stream.Limits{Events: 2, Age: time.Minute})
		for _, data := range []string{"gone", "", "b"} {
			appendEvent(t, l, data)
			time.Sleep(time.Second)
		}
		want := stream.State{Epoch: "e", Head: 3, Entries: []stream.Entry{
			{Data: []byte{}, Age: 2 * time.Second}, {Data: []byte("b"), Age: time.Second},
		}}
		if got := l.State(); !reflect.DeepEqual(got, want) {
			t.Errorf("State = %+v, want %+v", got, want)
		}
	})
}

// An event without data must not read as no event, whatever it was stored as.
func TestRestoredEventWithoutData(t *testing.T) {
	l, err := stream.Restore(stream.State{Epoch: "e", Head: 1, Entries: []stream.Entry{{}}}, 0, stream.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, data, err := l.Cursor(0, nil, nil).Next(nil, 1); err != nil || len(data) != 1 || data[0] == nil {
		t.Errorf("Next = %#v, %v; want one event that is not nil", data, err)
	}
}

func TestRestoreNamesWhatIsWrong(t *testing.T) {
	entries := func(ages ...time.Duration) (all []stream.Entry) {
		for _, age := range ages {
			all = append(all, stream.Entry{Age: age})
		}
		return all
	}
	for want, state := range map[string]stream.State{
		"epoch: must not be empty":                   {Head: 1},
		"head: 9007199254740992: must be at most":    {Epoch: "e", Head: stream.MaxSeq + 1},
		"2 entries: must be at most the head, 1":     {Epoch: "e", Head: 1, Entries: entries(1, 1)},
		"entry 1: age: -1ns: must not be negative":   {Epoch: "e", Head: 3, Entries: entries(1, -1)},
		"entry 2: age: 2ns: must not be above that ": {Epoch: "e", Head: 3, Entries: entries(1, 1, 2)},
	} {
		if l, err := stream.Restore(state, 0, stream.Limits{}); l != nil || err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Restore = %v, %v; want an error with %q", l, err, want)
		}
	}
	full, err := stream.Restore(stream.State{Epoch: "e", Head: stream.MaxSeq}, 0, stream.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := full.Append(nil); !errors.Is(err, stream.ErrFull) {
		t.Errorf("Append after the last number = %v, want ErrFull", err)
	}
	old := stream.State{Epoch: "e", Head: 1, Entries: entries(1<<63 - 1)}
	if l, err := stream.Restore(old, 1<<63-1, stream.Limits{}); err != nil || l.First() != 1 {
		t.Errorf("the longest times: %v, want an empty log at 1", err)
	}
}

func TestVoidEndsALogAndTellsItsReaders(t *testing.T) {
	log := stream.NewLog("e", stream.Limits{})
	for range 3 {
		if _, err := log.Append([]byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	bell := newNotifier()
	caughtUp, behind := log.Cursor(3, bell, "reader"), log.Cursor(1, nil, nil)
	if _, data, err := caughtUp.Next(nil, 100); err != nil || len(data) > 0 || caughtUp.Pending() {
		t.Fatalf("Next at the head: %d events, %v, pending %v", len(data), err, caughtUp.Pending())
	}
	log.Void()
	log.Void()
	if woken := bell.woken(); len(woken) != 1 {
		t.Errorf("woken: %v, want the one that had read everything", woken)
	}
	if !caughtUp.Pending() {
		t.Error("Pending is false, although there is something to be told")
	}
	for _, c := range []*stream.Cursor{caughtUp, behind, log.Cursor(3, nil, nil)} {
		if _, data, err := c.Next(nil, 100); !errors.Is(err, stream.ErrVoid) || len(data) > 0 {
			t.Errorf("Next: %d events, %v, want ErrVoid", len(data), err)
		}
		if c.Log() != log {
			t.Error("Log is another one")
		}
	}
	if _, err := log.Append([]byte("1")); !errors.Is(err, stream.ErrVoid) {
		t.Errorf("Append: %v, want ErrVoid", err)
	}
	for after := range uint64(4) {
		if log.Covers("e", after) {
			t.Errorf("it covers %d", after)
		}
	}
	if first, head := log.Bounds(); first != 3 || head != 3 {
		t.Errorf("bounds %d, %d, want 3, 3", first, head)
	}
}
