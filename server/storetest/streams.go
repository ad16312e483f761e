package storetest

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	gosync "sync"
	"testing"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

func testStreams(t *testing.T, h harness) {
	h.cases(t, map[string]func(*testing.T, harness){
		"events arrive in order":                   eventsArrive,
		"what was published before is there":       publishedBefore,
		"an unknown stream is made":                unknownStream,
		"two feeds show the same":                  twoFeeds,
		"many publishers, one order":               manyPublishers,
		"Sync catches up":                          syncCatchesUp,
		"data is copied":                           dataIsCopied,
		"a stream too many":                        streamTooMany,
		"a stream outlives its feeds":              streamOutlivesFeeds,
		"an event too large":                       eventTooLarge,
		"an event with any JSON in it arrives so":  anyJSON,
		"a context that has ended publishes never": endedContext,
	})
}

func eventsArrive(t *testing.T, h harness) {
	s := h.store(t)
	f := follow(t, s, "a")
	defer f.Close()
	for i := range 10 {
		if seq := publish(t, s, "a", fmt.Sprint(i+1)); seq != uint64(i)+1 {
			t.Errorf("Publish = %d, want %d", seq, i+1)
		}
	}
	if got := Next(t, f, 0, 10); !reflect.DeepEqual(got, numbers(1, 10)) {
		t.Errorf("got %q", got)
	}
}

func publishedBefore(t *testing.T, h harness) {
	s := h.store(t)
	for _, data := range numbers(1, 3) {
		publish(t, s, "a", data)
	}
	f := follow(t, s, "a")
	defer f.Close()
	if got := Next(t, f, 1, 2); !reflect.DeepEqual(got, numbers(2, 3)) {
		t.Errorf("got %q", got)
	}
	if log := f.Log(); !log.Covers(log.Epoch(), 0) || log.Covers(log.Epoch(), 4) {
		t.Error("it covers 0 to 3, and not 4")
	}
}

func unknownStream(t *testing.T, h harness) {
	s := h.store(t)
	a, b := follow(t, s, "a"), follow(t, s, "b")
	defer a.Close()
	defer b.Close()
	if head := a.Log().Head(); head != 0 {
		t.Errorf("head %d, want 0", head)
	}
	if a.Log().Epoch() == "" || a.Log().Epoch() == b.Log().Epoch() {
		t.Errorf("epochs %q and %q: want two that are not empty", a.Log().Epoch(), b.Log().Epoch())
	}
	if n := s.Stats().Streams; n != 2 {
		t.Errorf("Stats: %d streams, want 2", n)
	}
}

func twoFeeds(t *testing.T, h harness) {
	s := h.store(t)
	a := follow(t, s, "a")
	publish(t, s, "a", "1")
	b := follow(t, s, "a")
	publish(t, s, "a", "2")
	for _, f := range []server.Feed{a, b} {
		if got := Next(t, f, 0, 2); !reflect.DeepEqual(got, numbers(1, 2)) {
			t.Errorf("got %q", got)
		}
	}
	if a.Log().Epoch() != b.Log().Epoch() {
		t.Errorf("epochs %q and %q", a.Log().Epoch(), b.Log().Epoch())
	}
	a.Close()
	publish(t, s, "a", "3")
	if got := Next(t, b, 2, 1); got[0] != "3" {
		t.Errorf("after the other was closed: got %q", got)
	}
	b.Close()
}

func manyPublishers(t *testing.T, h harness) {
	const publishers, each = 4, 50
	s := h.store(t)
	f := follow(t, s, "a")
	defer f.Close()
	var wg gosync.WaitGroup
	want := make([]string, publishers*each)
	for p := range publishers {
		wg.Go(func() {
			for i := range each {
				data := fmt.Sprintf(`"%d/%d"`, p, i)
				seq, err := s.Publish(t.Context(), "a", []byte(data))
				if err != nil || seq == 0 || seq > uint64(len(want)) || want[seq-1] != "" {
					t.Errorf("Publish = %d, %v", seq, err)
					return
				}
				want[seq-1] = data
			}
		})
	}
	wg.Wait()
	if got := Next(t, f, 0, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func syncCatchesUp(t *testing.T, h harness) {
	s := h.store(t)
	f := follow(t, s, "a")
	defer f.Close()
	var wg gosync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				seq, err := s.Publish(t.Context(), "a", []byte("1"))
				if err != nil {
					t.Error(err)
					return
				}
				if err := f.Sync(t.Context()); err != nil {
					t.Error(err)
					return
				}
				if head := f.Log().Head(); head < seq {
					t.Errorf("head %d after Sync, want %d or more", head, seq)
				}
			}
		})
	}
	wg.Wait()
}

func dataIsCopied(t *testing.T, h harness) {
	s := h.store(t)
	f := follow(t, s, "a")
	defer f.Close()
	data := []byte(`"before"`)
	if _, err := s.Publish(t.Context(), "a", data); err != nil {
		t.Fatal(err)
	}
	copy(data, `"after!"`)
	if got := Next(t, f, 0, 1); got[0] != `"before"` {
		t.Errorf("got %q", got)
	}
}

func streamTooMany(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.Streams = 2 })
	a, b := follow(t, s, "a"), follow(t, s, "b")
	defer a.Close()
	defer b.Close()
	if _, err := s.Follow(t.Context(), "c"); err == nil {
		t.Error("a third stream is followed")
	} else {
		wantErr(t, "Follow", err, server.ErrTooManyStreams)
	}
	follow(t, s, "a").Close()
	sess := attach(t, s, "", "u", 0)
	defer sess.Detach()
}

func streamOutlivesFeeds(t *testing.T, h harness) {
	s := h.store(t)
	f := follow(t, s, "a")
	epoch := f.Log().Epoch()
	publish(t, s, "a", "1")
	f.Close()
	publish(t, s, "a", "2")
	f = follow(t, s, "a")
	defer f.Close()
	if f.Log().Epoch() != epoch {
		t.Errorf("epoch %q, want %q", f.Log().Epoch(), epoch)
	}
	if got := Next(t, f, 0, 2); !reflect.DeepEqual(got, numbers(1, 2)) {
		t.Errorf("got %q", got)
	}
}

func eventTooLarge(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.Log.Bytes = 4 })
	_, err := s.Publish(t.Context(), "a", []byte("12345"))
	wantErr(t, "Publish", err, stream.ErrTooLarge)
	if seq := publish(t, s, "a", "1234"); seq != 1 {
		t.Errorf("Publish after a refusal = %d, want 1", seq)
	}
}

func anyJSON(t *testing.T, h harness) {
	s := h.store(t)
	f := follow(t, s, "a")
	defer f.Close()
	want := []string{`null`, `""`, ` { "a" : [1 , 2] } `, "\"\u2028 €\\u0000 ' - E 1\"", "[\r\n]"}
	for _, data := range want {
		publish(t, s, "a", data)
	}
	if got := Next(t, f, 0, len(want)); !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func endedContext(t *testing.T, h harness) {
	s := h.store(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Publish(ctx, "a", []byte("1")); err != nil {
		wantErr(t, "Publish", err, context.Canceled)
		f := follow(t, s, "a")
		defer f.Close()
		if head := f.Log().Head(); head != 0 {
			t.Errorf("head %d, want 0", head)
		}
	}
}

func testBounds(t *testing.T, h harness) {
	for _, n := range []int{1, 2, 100} {
		t.Run(fmt.Sprintf("events=%d", n), func(t *testing.T) {
			t.Parallel()
			boundsKeep(t, h.store(t, func(o *server.StoreOptions) { o.Log.Events = n }), n)
		})
		t.Run(fmt.Sprintf("bytes=%d", 3*n), func(t *testing.T) {
			t.Parallel()
			boundsKeep(t, h.store(t, func(o *server.StoreOptions) { o.Log.Bytes = 3 * int64(n) }), n)
		})
		t.Run(fmt.Sprintf("age of %d", n), func(t *testing.T) {
			t.Parallel()
			ageForgets(t, h, n)
		})
	}
}

// boundsKeep publishes events of three bytes, of which the newest n are kept.
func boundsKeep(t *testing.T, s server.Store, n int) {
	f := follow(t, s, "a")
	defer f.Close()
	for i := 1; i <= 3*n+2; i++ {
		publish(t, s, "a", fmt.Sprintf("%3d", i))
		if i > 3 && i < 3*n-1 {
			continue
		}
		sync(t, f)
		first, head := f.Log().Bounds()
		if head != uint64(i) || first != uint64(max(0, i-n)) {
			t.Fatalf("after %d events: covers %d to %d, want %d to %d", i, first, head, max(0, i-n), i)
		}
		got := Next(t, f, first, int(head-first)) //nolint:gosec // at most n
		if want := fmt.Sprintf("%3d", first+1); got[0] != want {
			t.Errorf("the oldest is %q, want %q", got[0], want)
		}
	}
	f.Close()
	f = follow(t, s, "a")
	if first, head := f.Log().Bounds(); first != head-uint64(n) || head != uint64(3*n+2) {
		t.Errorf("followed anew: covers %d to %d, want %d to %d", first, head, 2*n+2, 3*n+2)
	}
}

// ageForgets also shows that head and epoch outlive the entries.
func ageForgets(t *testing.T, h harness, n int) {
	s := h.store(t, func(o *server.StoreOptions) { o.Log.Age = 200 * time.Millisecond })
	f := follow(t, s, "a")
	epoch, last := f.Log().Epoch(), uint64(n) //nolint:gosec // not negative
	for range n {
		publish(t, s, "a", "1")
	}
	sync(t, f)
	Eventually(t, "the entries are forgotten", func() bool { return f.Log().First() == last })
	if head := f.Log().Head(); head != last {
		t.Errorf("head %d, want %d", head, last)
	}
	f.Close()
	f = follow(t, s, "a")
	defer f.Close()
	if log := f.Log(); log.Epoch() != epoch || !log.Covers(epoch, last) || log.Covers(epoch, last-1) {
		first, head := log.Bounds()
		t.Errorf("followed anew: %s covers %d to %d, want %s, %d to %d", log.Epoch(), first, head, epoch, last, last)
	}
	if seq := publish(t, s, "a", "2"); seq != last+1 {
		t.Errorf("Publish = %d, want %d", seq, last+1)
	}
	sync(t, f)
	if head := f.Log().Head(); head != last+1 { // the event itself may be forgotten already
		t.Errorf("head %d, want %d", head, last+1)
	}
}
