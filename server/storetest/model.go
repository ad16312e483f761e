package storetest

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/server"
)

// testModel compares a stream with a slice, through any sequence of calls.
func testModel(t *testing.T, h harness) {
	rapid.Check(t, func(rt *rapid.T) {
		o := Options()
		o.Log.Events = rapid.IntRange(1, 8).Draw(rt, "events")
		o.Log.Bytes = rapid.Int64Range(8, 40).Draw(rt, "bytes")
		s, err := h.open(o)
		if err != nil {
			rt.Fatal(err)
		}
		m := &model{t: t, s: s, o: o}
		defer func() {
			if err := s.Close(); err != nil {
				rt.Errorf("Close: %v", err)
			}
		}()
		rt.Repeat(map[string]func(*rapid.T){
			"publish": m.publish,
			"follow":  m.follow,
			"close":   m.close,
			"read":    m.read,
		})
	})
}

// model is a stream: all that was published.
type model struct {
	t     *testing.T
	s     server.Store
	o     server.StoreOptions
	all   []string
	epoch string
	feeds []server.Feed
}

func (m *model) publish(rt *rapid.T) {
	for range rapid.IntRange(1, 5).Draw(rt, "events") {
		data := strings.Repeat("1", rapid.IntRange(1, 8).Draw(rt, "size"))
		m.all = append(m.all, data)
		if seq, err := m.s.Publish(m.t.Context(), "a", []byte(data)); err != nil || seq != uint64(len(m.all)) {
			rt.Fatalf("Publish = %d, %v; want %d", seq, err, len(m.all))
		}
	}
}

func (m *model) follow(rt *rapid.T) {
	f, err := m.s.Follow(m.t.Context(), "a")
	if err != nil {
		rt.Fatal(err)
	}
	m.feeds = append(m.feeds, f)
	m.compare(rt, f)
}

func (m *model) feed(rt *rapid.T) int {
	if len(m.feeds) == 0 {
		rt.Skip("no feed")
	}
	return rapid.IntRange(0, len(m.feeds)-1).Draw(rt, "feed")
}

func (m *model) close(rt *rapid.T) {
	i := m.feed(rt)
	m.feeds[i].Close()
	m.feeds = slices.Delete(m.feeds, i, i+1)
}

func (m *model) read(rt *rapid.T) {
	m.compare(rt, m.feeds[m.feed(rt)])
}

// first is the lowest position that is covered.
func (m *model) first() int {
	first, bytes := len(m.all), int64(0)
	for first > 0 && len(m.all)-first < m.o.Log.Events && bytes+int64(len(m.all[first-1])) <= m.o.Log.Bytes {
		first--
		bytes += int64(len(m.all[first]))
	}
	return first
}

func (m *model) compare(rt *rapid.T, f server.Feed) {
	if err := f.Sync(m.t.Context()); err != nil {
		rt.Fatal(err)
	}
	log := f.Log()
	if m.epoch == "" {
		m.epoch = log.Epoch()
	}
	if log.Epoch() != m.epoch {
		rt.Errorf("epoch %q, want %q", log.Epoch(), m.epoch)
	}
	first, head := log.Bounds()
	if int(first) != m.first() || int(head) != len(m.all) { //nolint:gosec // few
		rt.Fatalf("covers %d to %d, want %d to %d", first, head, m.first(), len(m.all))
	}
	_, data, err := log.Cursor(first, nil, nil).Next(nil, 1<<20)
	var got []string
	for _, d := range data {
		got = append(got, string(d))
	}
	if want := m.all[m.first():]; err != nil || !slices.Equal(got, want) {
		rt.Errorf("read %q, %v; want %q", got, err, want)
	}
}
