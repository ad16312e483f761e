package integration_test

import (
	"context"
	"crypto/x509"
	"fmt"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// inFaultyWorld runs f in a bubble, with a client and a server of the test's own.
func inFaultyWorld(t *testing.T, h http.Handler, c reconnect.Options, f func(w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := &world{t: t, net: memnet.Listen(), effects: make(map[string]int)}
		hs := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
		go hs.Serve(w.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
		w.run(c)
		f(w)
		w.stop()
		_ = hs.Close()
		w.net.Cut()
		time.Sleep(time.Minute) // for the handlers to see it
	})
}

// A proxy without a backend accepts and drops at once: every attempt "opens", and
// still the client must not hammer it.
func TestAServerThatOpensAndDropsIsTriedEverMoreSeldom(t *testing.T) {
	for name, end := range map[string]func(ws *websocket.Conn){
		"1011": func(ws *websocket.Conn) { ws.Close(websocket.StatusInternalError, "") }, //nolint:errcheck // a test
		"drop": func(ws *websocket.Conn) { ws.CloseNow() },                               //nolint:errcheck // a test
	} {
		t.Run(name, func(t *testing.T) {
			var upgrades atomic.Int32
			drop := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				upgrades.Add(1)
				if ws, err := websocket.Accept(w, r, nil); err == nil {
					time.Sleep(5 * time.Millisecond)
					end(ws)
				}
			})
			p := reconnect.Policy{Base: 100 * time.Millisecond, Cap: 5 * time.Second, Rand: func() float64 { return 0.5 }}
			inFaultyWorld(t, drop, reconnect.Options{Policy: p}, func(w *world) {
				time.Sleep(30 * time.Second)
				// Waits of 50, 100, 200, … ms up to 2.5 s: six until then, ten at the cap.
				if n := upgrades.Load(); n < 15 || n > 18 {
					t.Errorf("%d upgrades in 30 s, want about 17", n)
				}
				if s := w.client.Status(); s.Attempt < 15 {
					t.Errorf("attempt %d: the count started again", s.Attempt)
				}
			})
		})
	}
}

// A server that is away for a day is found again without help.
func TestAServerThatWasAwayForADayIsFoundWithinTheCap(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.live()
		w.net.Refuse(true)
		w.net.Cut()
		time.Sleep(24 * time.Hour)
		w.net.Refuse(false)
		back := time.Now()
		w.live()
		if took := time.Since(back); took > 31*time.Second {
			t.Errorf("back after %v, the cap is 30 s", took)
		}
	})
}

// Browsers say "online" before the network works: the failure of the first dial must
// not mean another long wait.
func TestOnlineThatComesTooEarlyIsFollowedByQuickTries(t *testing.T) {
	c := reconnect.Options{Policy: reconnect.Policy{Rand: func() float64 { return 0.5 }}}
	inWorld(t, server.Options{Spread: 4 * time.Second}, c, func(w *world) {
		w.live()
		w.net.Refuse(true)
		w.net.Cut()
		time.Sleep(10 * time.Minute)
		w.eventually("a wait of 15 s", func() bool { return time.Until(w.client.Status().NextRetry) > 14*time.Second })
		begun := time.Now()
		w.client.Notify(reconnect.Online)
		time.Sleep(2500 * time.Millisecond)
		w.net.Refuse(false)
		w.live()
		if took := time.Since(begun); took > 5*time.Second {
			t.Errorf("back %v after online, want soon", took)
		}
	})
}

// Whatever fails a dial, the first one or the first after a session: none is fatal.
func TestNothingThatFailsADialIsFatal(t *testing.T) {
	for name, failure := range map[string]error{
		"refused":     syscall.ECONNREFUSED,
		"reset":       syscall.ECONNRESET,
		"unreachable": syscall.ENETUNREACH,
		"no such name": &net.DNSError{
			Err: "no such host", Name: "server", IsNotFound: true,
		},
		"certificate": x509.UnknownAuthorityError{},
	} {
		t.Run(name, func(t *testing.T) {
			var down atomic.Bool
			down.Store(true)
			inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
				w.stop()
				dial := func(ctx context.Context, network, address string) (net.Conn, error) {
					if down.Load() {
						return nil, &net.OpError{Op: "dial", Net: network, Err: failure}
					}
					return w.net.DialContext(ctx, network, address)
				}
				w.run(reconnect.Options{HTTPClient: httpClient(dial)})
				time.Sleep(10 * time.Second)
				down.Store(false)
				w.live()
				down.Store(true)
				w.net.Cut()
				time.Sleep(10 * time.Second)
				if s := w.client.Status(); s.State == reconnect.Live || s.State == reconnect.Ended {
					t.Errorf("got %+v", s)
				}
				down.Store(false)
				w.live()
			})
		})
	}
}

// The server accepts TCP, reads the request and says nothing until long after the
// attempt was given up.
func TestAServerThatAnswersNoUpgradeIsGivenUp(t *testing.T) {
	var slow atomic.Bool
	slow.Store(true)
	var mu sync.Mutex
	var at []time.Time
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		at = append(at, time.Now())
		mu.Unlock()
		if slow.Load() {
			time.Sleep(5 * time.Second)
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		_, _, _ = ws.Read(r.Context())
		_ = ws.Write(r.Context(), websocket.MessageText, []byte(`{"t":"welcome","v":1,"session":"s","gen":1,"user":"","seq":0,"epoch":"e","first":0,"resync":false}`))
		_, _, _ = ws.Read(r.Context())
	})
	p := reconnect.Policy{DialTimeout: 3 * time.Second, Rand: func() float64 { return 0.5 }}
	inFaultyWorld(t, h, reconnect.Options{Policy: p}, func(w *world) {
		time.Sleep(8 * time.Second)
		mu.Lock()
		n := len(at)
		spaced := n == 3 && at[1].Sub(at[0]) == 3250*time.Millisecond && at[2].Sub(at[1]) == 3500*time.Millisecond
		mu.Unlock()
		if s := w.client.Status(); !spaced || s.State == reconnect.Live || s.LastClose.Reason != "the socket did not open within 3s" {
			t.Errorf("%d upgrades at %v; %+v", n, at, s)
		}
		slow.Store(false)
		w.live()
	})
}

// Closed from within a callback, in the middle of the wait: no further dial.
func TestAClientClosedWithinItsStateCallbackDialsNoMore(t *testing.T) {
	var stop func()
	onState := func(s reconnect.Status) {
		if s.State == reconnect.Waiting {
			stop()
		}
	}
	inWorld(t, server.Options{}, reconnect.Options{OnState: onState}, func(w *world) {
		stop = w.stopClient
		w.live()
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		dials := w.net.Dials()
		w.net.Refuse(false)
		time.Sleep(time.Hour)
		if n := w.net.Dials() - dials; n != 0 || w.client.Status().State != reconnect.Ended {
			t.Errorf("%d dials after the close; %+v", n, w.client.Status())
		}
	})
}

// Closed is not for ever: an application goes to the background and comes back.
func TestAClientThatWasClosedCanRunAgain(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		for n := 1; n <= 3; n++ {
			w.stop()
			w.publish(n, n)
			synctest.Wait()
			if open := w.net.Count(); open != 0 {
				t.Errorf("%d connections after the close", open)
			}
			w.runAgain()
			w.live()
			want(t, w.taken(), "resumed missed=1", fmt.Sprintf("event %d %d", n, n))
			if open := w.net.Count(); open != 1 {
				t.Errorf("%d connections, want one", open)
			}
		}
		want(t, w.states, "connecting", "live", "ended", "connecting", "live", "ended", "connecting", "live", "ended", "connecting", "live")
	})
}

// Load is shed by HTTP status, which a browser does not see, and by close codes.
func TestAServerThatShedsLoadIsGivenTheTimeItAsksFor(t *testing.T) {
	for _, status := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(http.StatusText(status), func(t *testing.T) {
			var mu sync.Mutex
			var upgrades []time.Time
			var probed time.Time
			shed := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				mu.Lock()
				if r.URL.Path == "/ws" {
					upgrades = append(upgrades, time.Now())
				} else {
					probed = time.Now()
					w.Header().Set("Retry-After", "20") // as a page sees it
				}
				mu.Unlock()
				w.WriteHeader(status)
			})
			inFaultyWorld(t, shed, reconnect.Options{Probe: "http://server/probe"}, func(w *world) {
				w.eventually("probed", func() bool { mu.Lock(); defer mu.Unlock(); return !probed.IsZero() })
				time.Sleep(41 * time.Second)
				mu.Lock()
				defer mu.Unlock()
				next := slices.IndexFunc(upgrades, func(at time.Time) bool { return at.After(probed) })
				if next < 0 || upgrades[next].Sub(probed) < 20*time.Second {
					t.Errorf("probed at %v, upgrades at %v; want none for 20 s", probed, upgrades)
				}
				if s := w.client.Status(); s.State == reconnect.Ended {
					t.Errorf("ended: %+v", s)
				}
			})
		})
	}
}

// A probe that is not answered must not pile up on a server that is slow already.
func TestProbesDoNotPileUpOnASlowServer(t *testing.T) {
	var under, most, all atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ws" {
			http.Error(w, "down", http.StatusBadGateway)
			return
		}
		all.Add(1)
		most.Store(max(most.Load(), under.Add(1)))
		defer under.Add(-1)
		select {
		case <-time.After(30 * time.Second):
		case <-r.Context().Done():
		}
	})
	inFaultyWorld(t, h, reconnect.Options{Probe: "http://server/probe"}, func(w *world) {
		w.eventually("probed", func() bool { return all.Load() == 1 })
		time.Sleep(5100 * time.Millisecond)
		if n := under.Load(); n != 0 {
			t.Errorf("%d probes under way after their 5 s", n)
		}
		time.Sleep(10 * time.Minute)
		if all.Load() > 11 || most.Load() != 1 {
			t.Errorf("%d probes in 10 min, up to %d at once; want one a minute, one at once", all.Load(), most.Load())
		}
		for before := all.Load(); all.Load() == before; {
			time.Sleep(time.Second)
		}
		if n := under.Load(); n != 1 {
			t.Errorf("%d probes under way, want one", n)
		}
		w.stopClient()
		synctest.Wait()
		if n := under.Load(); n != 0 {
			t.Errorf("%d probes under way after the close", n)
		}
	})
}
