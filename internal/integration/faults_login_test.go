package integration_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// Logins live for a minute and take 150 ms to get. Whatever makes the client dial,
// it never comes with an expired one.
func TestNoDialBringsAnExpiredLogin(t *testing.T) {
	kicks := map[string]func(c *reconnect.Client){
		"visible":       func(c *reconnect.Client) { c.Notify(reconnect.Visible) },
		"online":        func(c *reconnect.Client) { c.Notify(reconnect.Online) },
		"reconnect now": func(c *reconnect.Client) { c.ReconnectNow() },
		"the timer":     func(*reconnect.Client) {},
	}
	for name, kick := range kicks {
		t.Run(name, func(t *testing.T) {
			var expired, used atomic.Int32
			o := server.Options{Authenticate: func(r *http.Request) (server.Identity, error) {
				used.Add(1)
				at, err := time.Parse(time.RFC3339Nano, r.URL.Query().Get("token"))
				if err != nil || time.Since(at) > time.Minute {
					expired.Add(1)
					return server.Identity{}, server.ErrUnauthorized
				}
				return server.Identity{User: "ada"}, nil
			}}
			url := func(context.Context) (string, error) {
				token := time.Now().Format(time.RFC3339Nano)
				time.Sleep(150 * time.Millisecond)
				return "ws://server/ws?token=" + strings.ReplaceAll(token, "+", "%2B"), nil
			}
			inWorld(t, o, reconnect.Options{URL: url}, func(w *world) {
				w.live()
				w.outage(func() {
					time.Sleep(5 * time.Minute)
					w.net.Refuse(false)
					kick(w.client)
				})
				if used.Load() != 2 || expired.Load() != 0 {
					t.Errorf("%d logins were shown, %d of them expired", used.Load(), expired.Load())
				}
			})
		})
	}
}

// The login ends while the link is up: renewed, resumed where it stood, no manual
// step.
func TestALoginThatEndsIsRenewedWithoutAGap(t *testing.T) {
	o := server.Options{Authenticate: func(*http.Request) (server.Identity, error) {
		return server.Identity{User: "ada", Expires: time.Now().Add(10 * time.Second)}, nil
	}}
	var token atomic.Int64
	url := func(context.Context) (string, error) {
		return fmt.Sprintf("ws://server/ws?token=%d", token.Add(1)), nil
	}
	inWorld(t, o, reconnect.Options{URL: url, Probe: "http://server/probe"}, func(w *world) {
		h := gapsOnly(w.logging())
		w.subscribe("a", h)
		w.live()
		for n := 1; n <= 1000; n++ {
			w.publish(n, n)
			time.Sleep(60 * time.Millisecond)
		}
		w.live()
		want(t, w.taken(), events(1, 1000)...)
		if got := w.client.Totals(); got.Sessions < 6 || got.Sessions > 7 || got.Recovery.Sum > time.Second || got.Probes != 0 {
			t.Errorf("got %+v; want a new session every 10 s, at once", got)
		}
	})
}

// A proxy in front turns a refused login into a redirect to a page that is served
// with 200: that is not "login and network are fine".
func TestAProbeThatIsRedirectedToALoginPageIsNotTakenForASuccess(t *testing.T) {
	var pages, cached atomic.Int32
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/login":
			pages.Add(1)
			_, _ = fmt.Fprint(w, "<html>Log in</html>")
		case "/probe":
			if r.Header.Get("Cache-Control") != "no-store" {
				cached.Add(1)
			}
			fallthrough
		default:
			http.Redirect(w, r, "/login", http.StatusFound)
		}
	})
	inFaultyWorld(t, h, reconnect.Options{Probe: "http://server/probe"}, func(w *world) {
		w.eventually("a hint", func() bool { return strings.Contains(w.client.Status().Hint, "redirected") })
		time.Sleep(10 * time.Minute)
		if s := w.client.Status(); s.Cause != reconnect.CauseUnauthorized {
			t.Errorf("got %+v, want it to end as unauthorized", s)
		}
		// The handshake's own redirects are the HTTP client's: the login page is no
		// WebSocket either way.
		if n := cached.Load(); n != 0 {
			t.Errorf("%d probes might have been answered by a cache", n)
		}
	})
}

// One stream that is forbidden, from the start or later, leaves the others alone.
func TestAStreamThatBecomesForbiddenLeavesTheOthers(t *testing.T) {
	var mu sync.Mutex
	asked := make(map[string]int)
	forbidden := map[string]bool{"c": true}
	o := server.Options{Authorize: func(_ context.Context, _ server.Identity, stream string) error {
		mu.Lock()
		defer mu.Unlock()
		asked[stream]++
		if forbidden[stream] {
			return server.ErrForbidden
		}
		return nil
	}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		for _, name := range []string{"a", "b", "c"} {
			h := reconnect.Handler{
				Event:   func(e reconnect.EventInfo) { w.note(fmt.Sprintf("%s %d", name, e.Seq)) },
				Refused: func(err error) { w.note(err.Error()) },
			}
			w.subscribe(name, h)
		}
		w.live()
		time.Sleep(time.Hour)
		want(t, w.taken(), `reconnect: stream "c": forbidden`)
		mu.Lock()
		forbidden["b"] = true
		if asked["c"] != 1 {
			t.Errorf("c was asked for %d times, want once", asked["c"])
		}
		mu.Unlock()
		w.outage(func() {})
		w.publish(1, 2)
		time.Sleep(time.Hour)
		got := w.taken()
		if s := w.client.Status(); s.State != reconnect.Live || s.Streams["b"].State != reconnect.StreamRefused || w.net.Dials() > 10 {
			t.Errorf("%d dials; %+v", w.net.Dials(), s)
		}
		if n := len(got); n != 4 || got[2] != "a 1" || got[3] != "a 2" {
			t.Errorf("got %q, want b and c refused and the events of a", got)
		}
	})
}

// Rights are taken away while events flow: the client hears of it once, and the rest
// goes on.
func TestAStreamThatIsTakenAwayIsReportedAsRefused(t *testing.T) {
	var revoked atomic.Bool
	o := server.Options{
		Authenticate: func(*http.Request) (server.Identity, error) { return server.Identity{User: "ada"}, nil },
		Authorize: func(_ context.Context, _ server.Identity, stream string) error {
			if stream == "b" && revoked.Load() {
				return server.ErrForbidden
			}
			return nil
		},
	}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.subscribe("b", reconnect.Handler{
			Event:   func(e reconnect.EventInfo) { w.note(fmt.Sprintf("b %d", e.Seq)) },
			Refused: func(err error) { w.note(err.Error()) },
		})
		w.live()
		publish := func(stream string) {
			if _, err := w.srv.Publish(w.t.Context(), stream, []byte("1")); err != nil {
				t.Fatal(err)
			}
		}
		publish("b")
		want(t, w.taken(), "b 1")
		revoked.Store(true)
		if n := w.srv.Reauthorize("ada"); n != 1 {
			t.Errorf("%d connections asked about", n)
		}
		want(t, w.taken(), `reconnect: stream "b": forbidden`)
		publish("b")
		publish("a")
		time.Sleep(time.Hour)
		want(t, w.taken(), "event 1 1")
		if s := w.client.Status(); s.State != reconnect.Live || s.Streams["b"].State != reconnect.StreamRefused || w.net.Dials() != 1 {
			t.Errorf("%d dials; %+v", w.net.Dials(), s)
		}
	})
}

// The server has no login problem at all, it is only not there: "unauthorized" would
// be wrong however long that lasts.
func TestAServerThatIsAwayIsNotTakenForARefusedLogin(t *testing.T) {
	inWorld(t, server.Options{}, reconnect.Options{Probe: "http://server/probe"}, func(w *world) {
		w.live()
		w.outage(func() {
			time.Sleep(24 * time.Hour)
			synctest.Wait()
			if s := w.client.Status(); s.State == reconnect.Ended || !strings.Contains(s.Hint, "unreachable") {
				t.Errorf("got %+v", s)
			}
		})
	})
}
