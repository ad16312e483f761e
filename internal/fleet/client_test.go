//go:build unix

package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// followed is the stream whose events are numbered by their data too.
const followed = "test/fleet"

// A numbered is the data of an event.
type numbered struct {
	N uint64 `json:"n"`
}

// A client follows the stream and remembers all it was told.
type client struct {
	id int
	c  *reconnect.Client

	mu      sync.Mutex
	got     []step
	live    bool
	lost    time.Time // when it last ceased to be live
	outages []outage
	dials   []dial
	problem string // the first thing wrong with what it was told
}

// A step is an event, or a gap that the client was told of.
type step struct {
	gap   bool
	seq   uint64 // of the event; of a gap: where the stream goes on
	epoch string // of a gap: the same
	n     uint64 // of the event
}

// A dial is a connection that a client has opened.
type dial struct {
	begun   time.Time
	address string // its own
}

// An outage is a time without a session.
type outage struct{ from, until time.Time }

// clients are the clients of one test.
type clients struct {
	t    *testing.T
	addr string // of the balancer
	all  []*client
	work sync.WaitGroup
}

// connect runs n clients until the end of the test, perSecond of them begun each
// second, and waits until all follow.
func connect(t *testing.T, addr string, n, perSecond int) *clients {
	t.Helper()
	cs := &clients{t: t, addr: addr}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(t.Context()))
	t.Cleanup(func() {
		cancel(errOver)
		cs.work.Wait()
	})
	ticker := time.NewTicker(time.Second / time.Duration(perSecond))
	defer ticker.Stop()
	for i := range n {
		cs.run(ctx, i)
		<-ticker.C
	}
	cs.awaitAll("following", func(c *client) bool {
		return c.c.Status().Streams[followed].State == reconnect.Following && c.isLive()
	})
	return cs
}

var errOver = errors.New("the test is over")

func (cs *clients) run(ctx context.Context, id int) {
	cs.t.Helper()
	c := &client{id: id}
	var err error
	c.c, err = reconnect.NewClient(reconnect.Options{
		URL:        func(context.Context) (string, error) { return "ws://" + cs.addr + "/ws", nil },
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: c.dial, DisableKeepAlives: true}},
		OnState:    c.state,
	})
	if err != nil {
		cs.t.Fatal(err)
	}
	_, err = c.c.Subscribe(followed, nil, reconnect.Handler{
		Event:     c.event,
		Recovered: c.recovered,
		Refused:   func(err error) { c.complain(err.Error()) },
	})
	if err != nil {
		cs.t.Fatal(err)
	}
	cs.all = append(cs.all, c)
	cs.work.Go(func() {
		if err := c.c.Run(ctx); !errors.Is(err, errOver) {
			cs.t.Errorf("client %d: %v", id, err)
		}
	})
}

func (c *client) dial(ctx context.Context, network, address string) (net.Conn, error) {
	begun := time.Now()
	conn, err := new(net.Dialer).DialContext(ctx, network, address)
	if err == nil {
		c.mu.Lock()
		c.dials = append(c.dials, dial{begun, conn.LocalAddr().String()})
		c.mu.Unlock()
	}
	return conn, err
}

func (c *client) state(s reconnect.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.live
	c.live = s.State == reconnect.Live
	switch {
	case was && !c.live:
		c.lost = s.Since
	case !was && c.live && !c.lost.IsZero():
		c.outages = append(c.outages, outage{c.lost, s.Since})
	}
}

func (c *client) event(e reconnect.EventInfo) {
	var data numbered
	if err := json.Unmarshal(e.Data, &data); err != nil {
		c.complain(err.Error())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, step{seq: e.Seq, n: data.N})
}

func (c *client) recovered(r reconnect.Recovery) {
	switch r.Outcome {
	case reconnect.NothingMissed, reconnect.Replayed:
	case reconnect.GapWithSnapshot:
		// There is none, which the node has yet to learn: it says so next.
	case reconnect.GapWithoutSnapshot:
		c.mu.Lock()
		defer c.mu.Unlock()
		c.got = append(c.got, step{gap: true, seq: r.Position.Seq, epoch: r.Position.Epoch})
	}
}

func (c *client) complain(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.problem == "" {
		c.problem = text
	}
}

func (c *client) isLive() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.live
}

// seen returns what the client was told so far.
func (c *client) seen() []step {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.got
}

// awaitAll waits until something is true of each client.
func (cs *clients) awaitAll(what string, ok func(*client) bool) {
	cs.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		var not []*client
		for _, c := range cs.all {
			if !ok(c) {
				not = append(not, c)
			}
		}
		if len(not) == 0 {
			return
		}
		if time.Now().After(deadline) {
			s := not[0].c.Status()
			cs.t.Fatalf("not within %v: %s: %d of %d clients; client %d is %v (%s), last close %+v, stream %+v",
				patience, what, len(not), len(cs.all), not[0].id, s.State, s.Reason, s.LastClose, s.Streams[followed])
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// check wants nothing to be wrong with any client. It shows the first of those that
// something is wrong with.
func (cs *clients) check(wrong func(*client) string) {
	cs.t.Helper()
	n := 0
	for _, c := range cs.all {
		what := wrong(c)
		if what == "" {
			continue
		}
		if n++; n > 3 {
			continue
		}
		text := new(strings.Builder)
		for _, h := range c.c.History() {
			fmt.Fprintf(text, "\n  %s %v %s", h.At.Format("15:04:05.000"), h.State, h.Reason)
		}
		cs.t.Errorf("client %d: %s%s", c.id, what, text)
	}
	if n > 3 {
		cs.t.Errorf("and so with %d of %d clients", n, len(cs.all))
	}
}

// checkConnects holds each client to one connection, and one more for each drain or
// kill that it sat on.
func (cs *clients) checkConnects(b *balancer) {
	cs.t.Helper()
	total, most := uint64(0), uint64(0)
	cs.check(func(c *client) string {
		c.mu.Lock()
		dials := c.dials
		c.mu.Unlock()
		sessions, sat := c.c.Totals().Sessions, b.sat(dials)
		total, most = total+sessions, max(most, sessions)
		if sessions > 1+sat {
			return fmt.Sprintf("%d connections, and it sat on %d stops", sessions, sat)
		}
		return ""
	})
	cs.t.Logf("%d clients connected %d times, none more than %d times", len(cs.all), total, most)
}
