package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// refused dials and returns what was said to who is not let in: a status, and the
// range of the time to come back.
func (w *world) refused(user string, header ...string) (status int, low, high time.Duration) {
	w.t.Helper()
	ws, res, err := w.tryDial(user, header...)
	if err != nil {
		seconds, _ := strconv.Atoi(res.Header.Get("Retry-After"))
		return res.StatusCode, time.Duration(seconds) * time.Second, 0
	}
	defer ws.CloseNow() //nolint:errcheck // test
	_, _, err = ws.Read(context.Background())
	ce, _ := errors.AsType[websocket.CloseError](err)
	low, high, ok := wire.ParseRetryReason(ce.Reason)
	if !ok || int(ce.Code) != wire.CloseTryLater {
		w.t.Fatalf("ended with %v, want 1013 and a time to come back", err)
	}
	return http.StatusSwitchingProtocols, low, high
}

// addsUp checks that every handshake is accounted for, and returns the counts.
func (w *world) addsUp() server.Stats {
	w.t.Helper()
	synctest.Wait()
	s := w.srv.Stats()
	sum := s.Welcomes
	for _, n := range s.Denied {
		sum += n
	}
	if s.Handshakes != sum {
		w.t.Errorf("%d handshakes, but %d welcomes and denied: %v", s.Handshakes, s.Welcomes, s.Denied)
	}
	return s
}

func TestTooMuchIsTurnedAwayWithACloseCodeThenWithAStatus(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{
		Handshakes: 10, HandshakeBurst: 3, TurnAways: 2,
	}}, func(t *testing.T, w *world) {
		for range 3 {
			w.join("ann")
		}
		// Lined up at ten a second, with at least a second to wait; a client spreads
		// itself over the range.
		for i := range 2 {
			status, low, high := w.refused("ann")
			want(t, fmt.Sprintf("turned away %d", i), []any{status, low, high}, []any{101, time.Second, 9 * time.Second})
		}
		for i := range 20 {
			// Of n seconds a client makes n to 2n, the middle of which is that of the range.
			status, after, _ := w.refused("ann")
			turn := max(1, float64(i+3)/10)
			want(t, fmt.Sprintf("refused %d", i), []any{status, after.Seconds()}, []any{503, math.Ceil((turn + turn + 8) / 3)})
		}
		res := w.get(http.MethodGet, "/probe", "User", "ann")
		want(t, "probe", []string{res.Status, res.Header.Get("Retry-After")}, []string{"503 Service Unavailable", "5"})
		s := w.addsUp()
		want(t, "counts", []any{s.Denied, s.Shed, s.Connections}, []any{map[string]uint64{"rate": 22}, uint64(2), 3})

		time.Sleep(time.Second)
		w.join("ann")
		want(t, "probe", w.get(http.MethodGet, "/probe", "User", "ann").StatusCode, 204)
	})
}

// An upgrade that is refused must not keep its TCP connection.
func TestARefusedUpgradeKeepsNoConnection(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Connections: 1, TurnAways: 0.001}}, func(t *testing.T, w *world) {
		w.join("ann")
		w.refused("ann") // the one that is turned away with a close code
		conn := w.rawDial(upgradeRequest)
		begun := time.Now()
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Error(err)
		}
		if took := time.Since(begun); took > time.Second || !strings.HasPrefix(string(all), "HTTP/1.1 503 ") {
			t.Errorf("after %v: %.300q", took, all)
		}
	})
}

func TestConnectionsOfTheNode(t *testing.T) {
	for name, turnAways := range map[string]float64{"close code": 100, "status": 0.001} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, server.Options{Admission: server.Admission{Connections: 2, TurnAways: turnAways}}, func(t *testing.T, w *world) {
				first, mute := w.join("ann"), w.dial("")
				if turnAways < 1 {
					w.refused("ann")
				}
				want(t, "probe", w.get(http.MethodGet, "/probe").StatusCode, 503)
				status, low, high := w.refused("bob")
				if turnAways < 1 {
					want(t, "status", []any{status, low}, []any{503, 15 * time.Second})
				} else {
					want(t, "status", []any{status, low, high}, []any{101, 15 * time.Second, 30 * time.Second})
				}
				_ = first.ws.CloseNow()
				synctest.Wait()
				w.join("bob")
				_ = mute.ws.CloseNow()
				synctest.Wait()
				w.join("bob")
				s := w.addsUp()
				want(t, "reasons", []any{s.Denied["connections"], s.Denied["gone"]}, []any{s.Handshakes - 4, uint64(1)})
			})
		})
	}
}

func TestConnectionsOfAUser(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{UserConnections: 2}}, func(t *testing.T, w *world) {
		first, second := w.join("ann"), w.join("ann")
		tooMany := func() {
			t.Helper()
			c := w.dial("ann")
			c.send(`{"t":"resume","v":1}`)
			c.closed(wire.CloseTooMany, "retry=15000-30000")
		}
		tooMany()
		for range 5 { // anonymous ones are not counted, nor is anybody else
			w.join("")
		}
		w.join("bob")

		// The connection of the second is dead and nobody knows: it takes its own
		// session over.
		second.link.Mute(true, true)
		again := w.join("ann", `"session":"`+second.welcome.Session+`"`)
		want(t, "session", again.welcome.Session, second.welcome.Session)
		tooMany()
		// Someone else's session, and one that is not known, are new sessions.
		for _, session := range []string{"unknown", w.join("bob").welcome.Session} {
			c := w.dial("ann")
			c.send(`{"t":"resume","v":1,"session":"%s"}`, session)
			c.closed(wire.CloseTooMany, "")
		}
		// An own session without a connection counts when it gets one.
		_ = first.ws.CloseNow()
		synctest.Wait()
		third := w.join("ann")
		c := w.dial("ann")
		c.send(`{"t":"resume","v":1,"session":"%s"}`, first.welcome.Session)
		c.closed(wire.CloseTooMany, "")
		_ = third.ws.CloseNow()
		synctest.Wait()
		want(t, "session", w.join("ann", `"session":"`+first.welcome.Session+`"`).welcome.Session, first.welcome.Session)
		want(t, "denied", w.addsUp().Denied, map[string]uint64{"user_connections": 5})
	})
}

func TestConnectionsOfAnAddress(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{
		AddressConnections: 2,
		Address: func(r *http.Request) string {
			if r.Header.Get("Forwarded") == "panic" {
				panic("in Address")
			}
			return r.Header.Get("Forwarded")
		},
	}}, func(t *testing.T, w *world) {
		dial := func(address string) *websocket.Conn {
			t.Helper()
			ws, _, err := w.tryDial("", "Forwarded", address)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = ws.CloseNow() })
			return ws
		}
		a := dial("a")
		dial("a")
		dial("b")
		status, low, high := w.refused("", "Forwarded", "a")
		want(t, "of a", []any{status, low, high}, []any{101, 15 * time.Second, 30 * time.Second})
		want(t, "probe of a", w.get(http.MethodGet, "/probe", "Forwarded", "a").StatusCode, 503)
		want(t, "probe of b", w.get(http.MethodGet, "/probe", "Forwarded", "b").StatusCode, 204)
		_ = a.CloseNow()
		synctest.Wait()
		dial("a")

		status, _, _ = w.refused("", "Forwarded", "panic")
		want(t, "of an address that cannot be told", status, 503)
		want(t, "its probe", w.get(http.MethodGet, "/probe", "Forwarded", "panic").StatusCode, 503)
		time.Sleep(time.Minute)
		want(t, "denied", w.addsUp().Denied, map[string]uint64{"address": 1, "gone": 1, "no_hello": 3, "failed": 1})
	})
}

// A crowd of three times what the node takes, for a minute: it takes what it can,
// lines up the rest, and nobody is left out.
func TestSustainedOverloadIsServedAtTheRate(t *testing.T) {
	const perSecond, seconds = 5, 60
	inWorld(t, server.Options{Admission: server.Admission{
		Handshakes: perSecond, Connections: 10 * perSecond * seconds, UserConnections: 10 * perSecond * seconds,
	}}, func(t *testing.T, w *world) {
		const clients = 3 * perSecond * seconds
		begun := time.Now()
		live, served := make(chan time.Duration, clients), make([]int, 0, 300)
		for i := range clients {
			go func() {
				time.Sleep(time.Duration(i) * time.Second / (3 * perSecond))
				for n := 0; ; n++ {
					ws, res, err := w.tryDial("ann")
					var low, high time.Duration
					if err == nil {
						_ = ws.Write(t.Context(), websocket.MessageText, []byte(`{"t":"resume","v":1}`))
						if _, _, err = ws.Read(t.Context()); err == nil {
							live <- time.Since(begun)
							_ = ws.CloseNow()
							return
						}
						_ = ws.CloseNow()
						ce, _ := errors.AsType[websocket.CloseError](err)
						low, high, _ = wire.ParseRetryReason(ce.Reason)
					} else if res != nil {
						s, _ := strconv.Atoi(res.Header.Get("Retry-After"))
						low, high = time.Duration(s)*time.Second, time.Duration(2*s)*time.Second
					}
					if high == 0 {
						t.Errorf("client %d, attempt %d: %v", i, n, err)
						live <- 0
						return
					}
					// Not uniform at random, but as spread: repeatable.
					time.Sleep(low + (high-low)*time.Duration((i*7919+n*104_729)%1000)/1000)
				}
			}()
		}
		var last time.Duration
		for range clients {
			at := <-live
			last = max(last, at)
			for len(served) <= int(at.Seconds()) {
				served = append(served, 0)
			}
			served[int(at.Seconds())]++
		}
		for second, n := range served {
			if n > 2*perSecond {
				t.Errorf("%d welcomes in second %d, at most %d a second", n, second, perSecond)
			}
			if second > 0 && second < seconds && n < perSecond*8/10 {
				t.Errorf("%d welcomes in second %d of an overload, %d could be", n, second, perSecond)
			}
		}
		if least := clients / perSecond * time.Second; last > least*4/3 {
			t.Errorf("all were served after %v; it could be done in %v", last, least)
		}
		s := w.addsUp()
		t.Logf("all served after %v, %d handshakes for %d clients, shed %d", last, s.Handshakes, clients, s.Shed)
	})
}

func TestHellosPassTheGateResumesFirst(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Welcomes: 1}}, func(t *testing.T, w *world) {
		old := w.join("ann")
		_ = old.ws.CloseNow()
		const half = time.Second / 2
		time.Sleep(half)
		begun := time.Now()
		var fresh []*client
		for range 10 {
			c := w.dial("bob")
			c.send(`{"t":"resume","v":1}`)
			fresh = append(fresh, c)
			synctest.Wait()
		}
		w.join("ann", `"session":"`+old.welcome.Session+`"`)
		want(t, "the resume came first, after", time.Since(begun), half)
		for i, c := range fresh {
			if i < 4 {
				c.welcomed()
				want(t, "welcome after", time.Since(begun), half+time.Duration(i+1)*time.Second)
				continue
			}
			c.closed(wire.CloseTryLater, "retry=15000-30000")
			want(t, "turned away after", time.Since(begun), 5*time.Second)
		}
		want(t, "denied", w.addsUp().Denied, map[string]uint64{"welcomes": 6})
	})
}

func TestCloseWhileHellosWait(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Welcomes: 0.01}}, func(t *testing.T, w *world) {
		w.join("ann")
		c := w.dial("ann")
		c.send(`{"t":"resume","v":1}`)
		mute := w.dial("ann")
		synctest.Wait()
		begun := time.Now()
		if err := w.srv.Close(); err != nil {
			t.Error(err)
		}
		want(t, "Close took", time.Since(begun), 0)
		c.closed(wire.CloseGoingAway, "server closed")
		mute.closed(wire.CloseGoingAway, "server closed")
		want(t, "denied", w.addsUp().Denied, map[string]uint64{"closed": 2})
	})
}

// The time of a drain is over while a hello is being answered.
func TestWhoIsDroppedBeforeItsWelcomeLeavesNothing(t *testing.T) {
	inWorld(t, server.Options{Authorize: func(context.Context, server.Identity, string) error {
		time.Sleep(3 * time.Second)
		return nil
	}}, func(t *testing.T, w *world) {
		c := w.dial("ann")
		c.send(`{"t":"resume","v":1,"subs":{"s":{}}}`)
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := w.srv.Drain(ctx, 0); err == nil {
			t.Error("a drain whose time was over said nothing")
		}
		time.Sleep(time.Minute)
		s := w.addsUp()
		want(t, "connections, live", []int{s.Connections, s.Live}, []int{0, 0})
	})
}

func TestAdmissionIsNamedWhenBad(t *testing.T) {
	for _, bad := range []float64{-1, math.NaN(), math.Inf(1), math.Inf(-1), 1e-9, 1e9, math.MaxFloat64, math.SmallestNonzeroFloat64} {
		_, err := server.New(server.Options{Admission: server.Admission{
			Handshakes: bad, TurnAways: bad, Accepts: bad, Welcomes: bad, MessageRate: bad,
		}})
		for _, name := range []string{"Handshakes", "TurnAways", "Accepts", "Welcomes", "MessageRate"} {
			if err == nil || !strings.Contains(err.Error(), "Options.Admission."+name+": ") {
				t.Errorf("%v: the error does not name %s: %v", bad, name, err)
			}
		}
	}
	_, err := server.New(server.Options{Admission: server.Admission{
		Connections: -1, UserConnections: -1, AddressConnections: -1, HandshakeBurst: -1, Replays: -1, MessageBurst: -1,
	}})
	for _, name := range []string{"Connections", "UserConnections", "AddressConnections", "HandshakeBurst", "Replays", "MessageBurst"} {
		if err == nil || !strings.Contains(err.Error(), "Options.Admission."+name+": -1") {
			t.Errorf("the error does not name %s: %v", name, err)
		}
	}
	for _, good := range []float64{0, 0.001, 1, 1e6} {
		if _, err := server.New(server.Options{Admission: server.Admission{Handshakes: good, MessageRate: good}}); err != nil {
			t.Errorf("%v: %v", good, err)
		}
	}
}
