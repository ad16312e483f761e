package redisstore_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/stream"
)

var commandCalls = regexp.MustCompile(`cmdstat_(\S+):calls=(\d+)`)

// calls returns how often commands have run since CONFIG RESETSTAT.
func calls(r *redistest.Server) (total int, by map[string]int) {
	by = make(map[string]int)
	for _, m := range commandCalls.FindAllStringSubmatch(r.Do("INFO", "commandstats").(string), -1) {
		n, _ := strconv.Atoi(m[2]) // digits
		by[m[1]] = n
		total += n
	}
	return total, by
}

// What a publish costs Redis depends on neither connections nor sessions.
func TestCommandsPerPublish(t *testing.T) {
	t.Parallel()
	const events = 200
	measure := func(followers, sessions int) (scripts, total int) {
		r := redistest.Start(t)
		a, b := node(t, r.URL()), node(t, r.URL())
		var feeds []server.Feed
		for range followers {
			for _, s := range []server.Store{a, b} {
				f, err := s.Follow(t.Context(), "s")
				if err != nil {
					t.Fatal(err)
				}
				defer f.Close()
				feeds = append(feeds, f)
			}
		}
		for i := range sessions {
			attach(t, b, "", fmt.Sprint("u", i), 0, nobody)
		}
		r.Do("CONFIG", "RESETSTAT")
		publish(t, a, "s", 1, events)
		for _, f := range feeds {
			storetest.Next(t, f, 0, events)
		}
		total, by := calls(r)
		return by["evalsha"] + by["eval"], total
	}
	fewScripts, few := measure(1, 1)
	manyScripts, many := measure(50, 100)
	// The beats of the nodes, and a connection more, cost something as well.
	const beats = 10
	if fewScripts > events+beats || manyScripts > events+beats {
		t.Errorf("%d scripts with few followers and sessions, %d with many; want %d for %d events", fewScripts, manyScripts, events, events)
	}
	if many > few+20*beats {
		t.Errorf("%d commands with few followers and sessions, %d with many", few, many)
	}
}

// BenchmarkPublish is what a call costs, beside that of a log in memory.
func BenchmarkPublish(b *testing.B) {
	data := fmt.Appendf(nil, `"%0150d"`, 0)
	b.Run("memory", func(b *testing.B) {
		log := stream.NewLog("e", stream.Limits{})
		for b.Loop() {
			if _, err := log.Append(data); err != nil {
				b.Fatal(err)
			}
		}
	})
	url := redistest.Start(b).URL()
	for _, publishers := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("redis, publishers=%d", publishers), func(b *testing.B) {
			s := benchNode(b, url)
			feed, err := s.Follow(b.Context(), "s")
			if err != nil {
				b.Fatal(err)
			}
			defer feed.Close()
			work := make(chan struct{})
			var wg sync.WaitGroup
			for range publishers {
				wg.Go(func() {
					for range work {
						if _, err := s.Publish(b.Context(), "s", data); err != nil {
							b.Error(err)
						}
					}
				})
			}
			for b.Loop() {
				work <- struct{}{}
			}
			close(work)
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// BenchmarkAcrossNodes is from the call of Publish on one node until a reader on
// another one has the event.
func BenchmarkAcrossNodes(b *testing.B) {
	url := redistest.Start(b).URL()
	from, to := benchNode(b, url), benchNode(b, url)
	feed, err := to.Follow(b.Context(), "s")
	if err != nil {
		b.Fatal(err)
	}
	defer feed.Close()
	signal := make(stream.Signal, 1)
	c := feed.Log().Cursor(feed.Log().Head(), signal, nil)
	defer c.Close()
	data := fmt.Appendf(nil, `"%0150d"`, 0)
	var took []time.Duration
	for b.Loop() {
		began := time.Now()
		if _, err := from.Publish(b.Context(), "s", data); err != nil {
			b.Fatal(err)
		}
		for {
			_, events, err := c.Next(nil, 1<<20)
			if err != nil {
				b.Fatal(err)
			}
			if len(events) > 0 {
				break
			}
			(<-signal).Take(nil, 1)
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
}

// BenchmarkFollow is the recovery of a stream that this node does not follow.
func BenchmarkFollow(b *testing.B) {
	url := redistest.Start(b).URL()
	s := benchNode(b, url)
	data := fmt.Appendf(nil, `"%0150d"`, 0)
	for range 100 {
		if _, err := s.Publish(b.Context(), "s", data); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("events=100", func(b *testing.B) {
		for b.Loop() {
			f, err := s.Follow(b.Context(), "s")
			if err != nil {
				b.Fatal(err)
			}
			f.Close()
		}
	})
	b.Run("sync", func(b *testing.B) {
		f, err := s.Follow(b.Context(), "s")
		if err != nil {
			b.Fatal(err)
		}
		defer f.Close()
		for b.Loop() {
			if err := f.Sync(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func benchNode(b *testing.B, url string) server.Store {
	b.Helper()
	s, err := redisstore.Open(redisstore.Options{URL: url})(storetest.Options())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close() })
	return s
}
