package ticket

import (
	"errors"
	"strconv"
	"testing"
)

// A clock that is set back makes nothing good again that was used, and one that was
// wrong by a year does not refuse tickets for a year.
func TestTheMemoryWhenTheClockIsSetBack(t *testing.T) {
	const now, year = int64(1_000_000_000), int64(31_536_000)
	m := newMemory(10)
	want := func(at int64, id string, end int64, first bool) {
		t.Helper()
		if got, err := m.use(at, id, end); got != first || err != nil {
			t.Errorf("use(%d, %s, %d) = %v, %v; want %v", at-now, id, end-now, got, err, first)
		}
	}
	want(now, "a", now+30, true)
	want(now+31, "b", now+61, true) // "a" is forgotten
	want(now+10, "a", now+30, false)
	want(now+10, "c", now+40, true)
	want(now+year, "d", now+year+30, true) // so is all else
	want(now+20, "b", now+61, false)
	want(now+20, "c", now+40, false)
	want(now+20, "e", now+50, false) // the price
	want(now+20+jump-30, "f", now+20+jump, true)
	want(now+20+jump-30, "f", now+20+jump, false)
}

func TestTheMemoryKeepsNothingOfWhatIsOver(t *testing.T) {
	const limit = 1000
	m := newMemory(limit)
	for now := range int64(500) {
		for i := range 10 {
			_, err := m.use(now, strconv.Itoa(i), now+30)
			if err != nil {
				t.Fatalf("second %d: %v", now, err)
			}
		}
		if m.n > 310 || len(m.ends) > 31 {
			t.Fatalf("second %d: %d ids in %d seconds", now, m.n, len(m.ends))
		}
	}
	full := 0
	for i := range limit {
		if _, err := m.use(500, strconv.Itoa(100+i), 600); errors.Is(err, errFull) {
			full++
		}
	}
	if m.n != limit || full != 300 {
		t.Errorf("%d ids, %d refused; want %d and 300", m.n, full, limit)
	}
}
