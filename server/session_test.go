package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

func TestResumeTakesTheSessionUpAgain(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		a := w.join("ann", `"gen":1`)
		w.net.Cut()
		synctest.Wait()
		if n, err := w.srv.PublishTo(t.Context(), "ann", []byte(`1`)); n != 1 || err != nil {
			t.Fatalf("PublishTo a session without a connection = %d, %v; want 1, nil", n, err)
		}
		b := w.dial("ann")
		welcome := b.resume(fmt.Sprintf(`"session":%q,"gen":2,"after":0,"epoch":%q`, a.welcome.Session, a.welcome.Own.Epoch))
		want(t, "session", welcome.Session, a.welcome.Session)
		want(t, "own", welcome.Own, wire.Answer{Seq: 1, Epoch: a.welcome.Own.Epoch})
		b.expect(event("", 1, `1`))
		stats := w.srv.Stats()
		want(t, "sessions, live, resumed", []int{stats.Sessions, stats.Live, int(stats.Resumed)}, []int{1, 1, 1})
	})
}

func TestNewestConnectionOfASessionWins(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		old := w.join("ann", `"gen":5`)
		session := fmt.Sprintf(`"session":%q`, old.welcome.Session)

		late := w.dial("ann")
		late.send(`{"t":"resume","v":1,"gen":5,%s}`, session)
		late.closed(wire.CloseNotNewest, "gen=5")
		w.publish("x", `1`)
		old.send(`{"t":"ping","n":1}`)
		old.expect(wire.Pong{N: 1})

		current := w.join("ann", session, `"gen":6`)
		want(t, "gen", current.welcome.Gen, 6)
		old.closed(wire.CloseNotNewest, "gen=6")
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`1`)); err != nil {
			t.Fatal(err)
		}
		current.expect(event("", 1, `1`))
	})
}

// A client loses its link first and resumes; the server's old socket dies later.
func TestLateCleanupOfAZombieChangesNothing(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		zombie := w.join("ann", `"gen":1`)
		session, epoch := zombie.welcome.Session, zombie.welcome.Own.Epoch
		zombie.link.Mute(true, true)
		for gen := 2; gen <= 4; gen++ {
			c := w.join("ann", fmt.Sprintf(`"session":%q,"gen":%d,"after":%d,"epoch":%q`, session, gen, gen-2, epoch))
			want(t, "resync", c.welcome.Own.Resync, false)
			time.Sleep(time.Minute) // the zombie is long gone
			if n, err := w.srv.PublishTo(t.Context(), "ann", []byte(`1`)); n != 1 || err != nil {
				t.Fatalf("PublishTo = %d, %v", n, err)
			}
			c.expect(event("", uint64(gen-1), `1`))
			stats := w.srv.Stats()
			want(t, "sessions, live, connections", []int{stats.Sessions, stats.Live, stats.Connections}, []int{1, 1, 1})
			c.link.Mute(true, true)
		}
	})
}

func TestForeignAndUnknownSessionsAreAnsweredAlike(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		ann := w.join("ann", `"gen":1`)
		if _, err := w.srv.PublishTo(t.Context(), "ann", []byte(`"secret"`)); err != nil {
			t.Fatal(err)
		}
		ann.expect(event("", 1, `"secret"`))
		for _, user := range []string{"bob", ""} {
			for _, session := range []string{ann.welcome.Session, "of nobody"} {
				c := w.join(user, fmt.Sprintf(`"session":%q,"gen":9,"after":0,"epoch":%q`, session, ann.welcome.Own.Epoch))
				if c.welcome.Session == session {
					t.Errorf("%q took over session %q", user, session)
				}
				want(t, "gen", c.welcome.Gen, 9)
				want(t, "own", c.welcome.Own, wire.Answer{Epoch: c.welcome.Own.Epoch, Resync: true})
				c.expect(wire.Reset{Epoch: c.welcome.Own.Epoch, Reason: "the stream's numbering has started anew"})
				c.silent()
			}
		}
		ann.send(`{"t":"ping","n":1}`)
		ann.expect(wire.Pong{N: 1})
	})
}

func TestResumeForAnotherUserIsForbidden(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		for _, user := range []string{"bob", ""} {
			c := w.dial(user)
			c.send(`{"t":"resume","v":1,"user":"ann"}`)
			c.closed(wire.CloseForbidden, "resume: user")
		}
		w.join("ann", `"user":"ann"`)
		w.join("ann")
	})
}

func TestLoginExpires(t *testing.T) {
	expires := map[string]time.Duration{"soon": 90 * time.Second, "past": -time.Second}
	inWorld(t, server.Options{
		Authenticate: func(r *http.Request) (server.Identity, error) {
			user := r.Header.Get("User")
			return server.Identity{User: user, Expires: time.Now().Add(expires[user])}, nil
		},
	}, func(t *testing.T, w *world) {
		start := time.Now()
		c := w.join("soon")
		w.publish("x", `1`)
		c.closed(wire.CloseLoginExpired, "login expired")
		want(t, "time of the close", time.Since(start), 90*time.Second)

		if _, res, err := w.tryDial("past"); err == nil || res.StatusCode != http.StatusUnauthorized {
			t.Errorf("dial with an expired login: %v, %v; want 401", res, err)
		}
		w.join("soon", fmt.Sprintf(`"session":%q,"gen":%d`, c.welcome.Session, c.welcome.Gen+1))
		if got := w.srv.Stats().Resumed; got != 1 {
			t.Errorf("resumed: %d, want 1", got)
		}
	})
}

func TestSessionsOfAUserAreIndependent(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		a, b := w.join("ann"), w.join("ann")
		if a.welcome.Session == b.welcome.Session {
			t.Fatal("two connections without a session share one")
		}
		if n, err := w.srv.PublishTo(t.Context(), "ann", []byte(`1`)); n != 2 || err != nil {
			t.Errorf("PublishTo = %d, %v; want 2, nil", n, err)
		}
		a.expect(event("", 1, `1`))
		b.expect(event("", 1, `1`))
		if n, err := w.srv.PublishTo(t.Context(), "bob", []byte(`1`)); n != 0 || err != nil {
			t.Errorf("PublishTo nobody = %d, %v; want 0, nil", n, err)
		}
		if _, err := w.srv.PublishTo(t.Context(), "", []byte(`1`)); err == nil {
			t.Error("PublishTo the empty user succeeded")
		}
	})
}

func TestSessionIsForgottenAfterItsLife(t *testing.T) {
	inWorld(t, server.Options{SessionLife: time.Minute}, func(t *testing.T, w *world) {
		a := w.join("ann")
		time.Sleep(time.Hour)
		want(t, "sessions while connected", w.srv.Stats().Sessions, 1)
		a.link.Cut()
		time.Sleep(59 * time.Second)
		want(t, "sessions within the life", w.srv.Stats().Sessions, 1)
		time.Sleep(time.Minute)
		want(t, "sessions after it", w.srv.Stats().Sessions, 0)
		b := w.join("ann", fmt.Sprintf(`"session":%q,"gen":99,"after":0,"epoch":%q`, a.welcome.Session, a.welcome.Own.Epoch))
		if b.welcome.Session == a.welcome.Session || !b.welcome.Own.Resync {
			t.Errorf("a forgotten session was answered %+v", b.welcome)
		}
	})
}

func TestSessionsAreBounded(t *testing.T) {
	inWorld(t, server.Options{UserSessions: 3, IdleSessions: 4}, func(t *testing.T, w *world) {
		for range 10 {
			w.join("ann").link.Cut()
			synctest.Wait()
		}
		want(t, "sessions of one user", w.srv.Stats().Sessions, 3)
		for range 10 {
			w.join("").link.Cut()
			synctest.Wait()
		}
		want(t, "sessions without a connection", w.srv.Stats().Sessions, 4)
	})
}

func TestAnonymousIsKnownByTheSession(t *testing.T) {
	var seen []server.Message
	inWorld(t, server.Options{
		OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
			seen = append(seen, m)
			return nil, nil
		},
	}, func(t *testing.T, w *world) {
		a, b := w.join(""), w.join("")
		want(t, "user", a.welcome.User, "")
		if a.welcome.DedupeID == b.welcome.DedupeID {
			t.Error("two anonymous sessions share a memory of ids")
		}
		for _, c := range []*client{a, b} {
			c.send(`{"t":"msg","id":"same","body":1}`)
			c.expect(wire.Ack{ID: "same"})
		}
		a.link.Cut()
		again := w.join("", fmt.Sprintf(`"session":%q,"gen":%d`, a.welcome.Session, a.welcome.Gen+1))
		want(t, "dedupe id", again.welcome.DedupeID, a.welcome.DedupeID)
		again.send(`{"t":"msg","id":"same","body":1}`)
		again.expect(wire.Ack{ID: "same"})
		want(t, "messages handled", len(seen), 2)
		want(t, "session of the first", seen[0].Session, a.welcome.Session)
	})
}

func TestDisconnect(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		a, b, other := w.join("ann"), w.join("ann"), w.join("bob")
		hello := w.dial("ann") // has not sent its resume
		synctest.Wait()
		want(t, "disconnected", w.srv.Disconnect("ann", wire.CloseForbidden, "banned"), 3)
		a.closed(wire.CloseForbidden, "banned")
		b.closed(wire.CloseForbidden, "banned")
		hello.closed(wire.CloseForbidden, "banned")
		other.silent()
		want(t, "anonymous", w.srv.Disconnect("", wire.CloseForbidden, ""), 0)
		want(t, "bob, with a code that cannot be sent", w.srv.Disconnect("bob", 1006, ""), 1)
		other.closed(wire.ClosePolicy, "")
		synctest.Wait()
		want(t, "connections", w.srv.Stats().Connections, 0)
	})
}

func TestCloseEndsEverything(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		a, hello := w.join("ann"), w.dial("ann")
		synctest.Wait()
		if err := w.srv.Close(); err != nil {
			t.Fatal(err)
		}
		a.closed(wire.CloseGoingAway, "server closed")
		hello.closed(wire.CloseGoingAway, "server closed")
		if _, err := w.srv.Publish(t.Context(), "x", []byte(`1`)); !errors.Is(err, server.ErrClosed) {
			t.Errorf("Publish = %v, want ErrClosed", err)
		}
		if _, res, err := w.tryDial("ann"); err == nil || res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" {
			t.Errorf("dial: %v, %v; want 503 with Retry-After", res, err)
		}
		want(t, "probe", w.get(http.MethodGet, "/probe").StatusCode, http.StatusServiceUnavailable)
	})
}

func TestCloseDoesNotWaitForDeadPeers(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.join("ann")
		w.net.Mute(true, true)
		start := time.Now()
		_ = w.srv.Close()
		if took := time.Since(start); took > 6*time.Second {
			t.Errorf("Close took %v", took)
		}
	})
}

func TestRefusalsBeforeTheUpgradeAreWhatTheProbeSays(t *testing.T) {
	inWorld(t, server.Options{
		Origins: []string{"https://app.example"},
		Authenticate: func(r *http.Request) (server.Identity, error) {
			switch r.Header.Get("User") {
			case "nobody":
				return server.Identity{}, fmt.Errorf("no cookie: %w", server.ErrUnauthorized)
			case "banned":
				return server.Identity{}, server.ErrForbidden
			case "broken":
				return server.Identity{}, errors.New("database")
			case "panics":
				panic("in Authenticate")
			case "long":
				return server.Identity{User: string(make([]byte, 257))}, nil
			}
			return server.Identity{User: "ann"}, nil
		},
	}, func(t *testing.T, w *world) {
		for _, tt := range []struct {
			user, origin string
			status       int
		}{
			{"ann", "", http.StatusNoContent},
			{"ann", "https://app.example", http.StatusNoContent},
			{"ann", "HTTPS://APP.example", http.StatusNoContent},
			{"ann", "http://host", http.StatusNoContent},
			{"ann", "http://app.example", http.StatusForbidden},
			{"ann", "https://app.example.evil", http.StatusForbidden},
			{"ann", "null", http.StatusForbidden},
			{"ann", "https://%", http.StatusForbidden},
			{"nobody", "", http.StatusUnauthorized},
			{"banned", "", http.StatusForbidden},
			{"broken", "", http.StatusServiceUnavailable},
			{"panics", "", http.StatusServiceUnavailable},
			{"long", "", http.StatusServiceUnavailable},
		} {
			res := w.get(http.MethodGet, "/probe", "User", tt.user, "Origin", tt.origin)
			if tt.origin == "" {
				res = w.get(http.MethodGet, "/probe", "User", tt.user)
			}
			mark := map[bool]string{true: "1"}[tt.status == http.StatusNoContent]
			if res.StatusCode != tt.status || res.Header.Get("Longwire-Probe") != mark || res.Header.Get("Cache-Control") != "no-store" {
				t.Errorf("probe of %+v: %d %v", tt, res.StatusCode, res.Header)
			}
			status := http.StatusNoContent
			ws, res, err := w.tryDial(tt.user, "Origin", tt.origin)
			if err != nil {
				status = res.StatusCode
			} else {
				_ = ws.CloseNow()
			}
			if status != tt.status {
				t.Errorf("upgrade of %+v: %d (204 for success)", tt, status)
			}
		}
	})
}

func TestProbeAcrossOrigins(t *testing.T) {
	inWorld(t, server.Options{Origins: []string{"https://app.example"}}, func(t *testing.T, w *world) {
		h := w.get(http.MethodGet, "/probe", "Origin", "https://app.example").Header
		want(t, "allowed", []string{h.Get("Access-Control-Allow-Origin"), h.Get("Access-Control-Allow-Credentials")}, []string{"https://app.example", "true"})
		h = w.get(http.MethodGet, "/probe", "Origin", "https://evil.example").Header
		want(t, "foreign", h.Get("Access-Control-Allow-Origin"), "")
		want(t, "POST", w.get(http.MethodPost, "/probe").StatusCode, http.StatusMethodNotAllowed)
		want(t, "plain GET of the endpoint", w.get(http.MethodGet, "/ws").StatusCode, http.StatusUpgradeRequired)
	})
}
