package integration_test

import (
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
)

var (
	streams   = []string{"a", "b", "c"}
	durations = []time.Duration{
		time.Millisecond, 20 * time.Millisecond, 150 * time.Millisecond, 400 * time.Millisecond, time.Second, 2 * time.Second,
		4 * time.Second, 7 * time.Second, 15 * time.Second, 40 * time.Second, 2 * time.Minute, 6 * time.Minute,
	}
	closeCodes = []int{1012, 1013, 4401, 4409, 1011, 4409}
)

func pick[T any](from []T, n int) T { return from[n%len(from)] }

func (w *simWorld) publishOn(key string) {
	w.publish(key, func(data []byte) (uint64, bool) {
		seq, err := w.srv.Publish(w.ctx, key, data)
		return seq, err == nil
	})
}

func (w *simWorld) publishTo(user string) {
	if user == "" {
		return
	}
	w.publish("own/"+user, func(data []byte) (uint64, bool) {
		n, err := w.srv.PublishTo(w.ctx, user, data)
		return 0, n > 0 && err == nil
	})
}

// step does one thing that can happen. It waits for nothing that it need not, so
// that several things happen at once.
func (w *simWorld) step(s simStep) {
	c := pick(w.clients, s.M)
	name := pick(append(streams, ""), s.N)
	d := pick(durations, s.N)
	switch s.Do {
	case "publish":
		for range 1 + s.N {
			w.publishOn(pick(streams, s.M))
		}
	case "burst":
		for range w.p.Log + 1 + s.N {
			w.publishOn(pick(streams, s.M))
		}
	case "publish own":
		for range 1 + s.N {
			w.publishTo(c.user)
		}
	case "send":
		c.send(pick(kinds, s.N), 0)
	case "send with deadline":
		c.send(pick(kinds, s.M/2), pick(durations, s.N))
	case "settle":
		synctest.Wait()
	case "time":
		time.Sleep(d)
	case "slow handlers":
		c.delay.Store(int64(pick([]time.Duration{0, 20 * time.Millisecond, 300 * time.Millisecond, 2 * time.Second}, s.N)))
	case "subscribe":
		c.subscribe(name, nil)
	case "unsubscribe":
		c.unsubscribe(name)
	case "resubscribe":
		c.unsubscribe(name)
		c.subscribe(name, nil)
	case "resubscribe from":
		c.subscribe(name, c.unsubscribe(name))
	case "kick":
		c.client.Notify(pick([]reconnect.SignalKind{reconnect.Online, reconnect.Offline, reconnect.Visible, reconnect.Hidden}, s.N))
	case "now":
		c.client.ReconnectNow()
	case "rerun":
		c.stop()
		c.run()
	default:
		w.hinder(s, d, c)
	}
}

// hinder puts something in the way.
func (w *simWorld) hinder(s simStep, d time.Duration, c *simClient) {
	switch s.Do {
	case "cut":
		w.net.Cut()
	case "flap":
		for range 1 + s.M%4 {
			w.net.Cut()
			time.Sleep(pick(durations[:6], s.N))
		}
	case "roam": // to another network: the old connections hear nothing any more
		for _, l := range w.net.Links() {
			l.Mute(true, true)
		}
		for _, c := range w.clients {
			c.client.Notify(reconnect.Online)
		}
	case "cut one":
		w.one(s.N, (*memnet.Link).Cut)
	case "refuse":
		w.net.Refuse(true)
		time.AfterFunc(d, func() { w.net.Refuse(false) })
	case "mute":
		w.net.Mute(s.M%3 != 0, s.M%3 != 1)
		time.AfterFunc(d, func() { w.net.Mute(false, false) })
	case "mute one":
		w.one(s.M/3, func(l *memnet.Link) {
			l.Mute(s.M%3 != 0, s.M%3 != 1)
			time.AfterFunc(d, func() { l.Mute(false, false) })
		})
	case "delay":
		w.net.Delay(pick(durations[:9], s.N), pick(durations[:9], s.M))
		time.AfterFunc(d, func() { w.net.Delay(0, 0) })
	case "delay one":
		w.one(s.N, func(l *memnet.Link) { l.Delay(pick(durations[:9], s.N), pick(durations[:9], s.M)) })
	case "disconnect":
		w.note("disconnected %d", w.srv.Disconnect(c.user, pick(closeCodes, s.N), ""))
	case "crash", "close":
		if s.Do == "crash" {
			w.net.Cut()
		}
		w.shutDown()
		time.Sleep(d)
		w.serve()
	case "url":
		w.url.Store(int32(s.N % 4)) //nolint:gosec // below 4
	case "authorize":
		w.authorize.Store(int32(s.N % 3)) //nolint:gosec // below 3
		w.forbade = w.forbade || s.N%3 == 2
	default:
		w.fail("no verb %q", s.Do)
	}
}

// one does something to one connection, if there is any.
func (w *simWorld) one(n int, do func(*memnet.Link)) {
	if links := w.net.Links(); len(links) > 0 {
		do(links[n%len(links)])
	}
}
