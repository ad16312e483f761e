package integration_test

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// fleet is many clients of one server, or of several.
type fleet struct {
	clients []*reconnect.Client
	stop    context.CancelFunc
	ended   sync.WaitGroup

	mu   sync.Mutex
	live [][]time.Time // of each client, when it became live
	gaps int
}

func newFleet(t *testing.T, n int, dial func(context.Context, string, string) (net.Conn, error), stream func(i int) string) *fleet {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	f := &fleet{stop: cancel, live: make([][]time.Time, n)}
	for i := range n {
		c, err := reconnect.NewClient(reconnect.Options{
			URL:        func(context.Context) (string, error) { return "ws://server/ws", nil },
			HTTPClient: httpClient(dial),
			OnState: func(s reconnect.Status) {
				if s.State == reconnect.Live {
					f.mu.Lock()
					f.live[i] = append(f.live[i], time.Now())
					f.mu.Unlock()
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if stream != nil {
			_, err = c.Subscribe(stream(i), nil, reconnect.Handler{Recovered: func(r reconnect.Recovery) {
				if r.Outcome != reconnect.NothingMissed && r.Outcome != reconnect.Replayed {
					f.mu.Lock()
					f.gaps++
					f.mu.Unlock()
				}
			}})
			if err != nil {
				t.Fatal(err)
			}
		}
		f.clients = append(f.clients, c)
		f.ended.Go(func() { _ = c.Run(ctx) }) // until the fleet ends
	}
	return f
}

func (f *fleet) end() {
	f.stop()
	f.ended.Wait()
}

// allFollow waits until every client is live, and its stream followed.
func (f *fleet) allFollow(t *testing.T) {
	t.Helper()
	for range 60 {
		synctest.Wait()
		waits := slices.ContainsFunc(f.clients, func(c *reconnect.Client) bool {
			s := c.Status()
			for _, stream := range s.Streams {
				if stream.State != reconnect.Following {
					return true
				}
			}
			return s.State != reconnect.Live
		})
		if !waits {
			return
		}
		time.Sleep(time.Second)
	}
	t.Fatal("not all are live within a minute")
}

// since returns when clients became live after from, in order.
func (f *fleet) since(from time.Time) []time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	var after []time.Duration
	for _, live := range f.live {
		for _, at := range live {
			if at.After(from) {
				after = append(after, at.Sub(from))
			}
		}
	}
	slices.Sort(after)
	return after
}
