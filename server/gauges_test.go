package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// Whatever happens to connections, what is shown is what is there.
func TestGaugesAndCountsAreTrueAfterAnything(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // repeatable
	inWorld(t, server.Options{
		Authenticate: func(r *http.Request) (server.Identity, error) {
			switch user := r.Header.Get("User"); user {
			case "nobody":
				return server.Identity{}, server.ErrUnauthorized
			case "banned":
				return server.Identity{}, server.ErrForbidden
			case "panic":
				panic("in Authenticate")
			default:
				return server.Identity{User: user}, nil
			}
		},
		Authorize: func(_ context.Context, _ server.Identity, stream string) error {
			if stream == "panic" {
				panic("in Authorize")
			}
			return nil
		},
		Snapshot:  func(context.Context, string) (server.Snapshot, error) { panic("in Snapshot") },
		OnMessage: func(context.Context, server.Message) (json.RawMessage, error) { panic("in OnMessage") },
		Admission: server.Admission{Connections: 18, UserConnections: 6, Handshakes: 5, HandshakeBurst: 10, TurnAways: 2, Welcomes: 4},
	}, func(t *testing.T, w *world) {
		var open []*client
		take := func() *client {
			i := r.IntN(len(open))
			c := open[i]
			open = slices.Delete(open, i, i+1)
			return c
		}
		try := func(user string, header ...string) *client {
			ws, res, err := w.tryDial(user, header...)
			if err != nil {
				if res == nil {
					t.Fatal(err)
				}
				return nil
			}
			t.Cleanup(func() { _ = ws.CloseNow() })
			c := newClient(t, ws)
			c.link = w.net.Links()[len(w.net.Links())-1]
			c.listen()
			return c
		}
		// welcomed reports whether there was a welcome in answer to the hello.
		welcomed := func(c *client, fields ...string) bool {
			_ = c.ws.Write(t.Context(), websocket.MessageText, []byte(`{"t":"resume","v":1`+joined(fields)+`}`)) // it may be closed already
			var ok bool
			c.welcome, ok = c.next().(wire.Welcome)
			return ok
		}
		cycle := func() {
			user := fmt.Sprint("user", r.IntN(4))
			switch do := r.IntN(28) - 12; {
			case do < 4: // another one, or one too many
				if c := try(user); c != nil && welcomed(c, `"subs":{"s":{},"panic":{}}`) {
					open = append(open, c)
				}
			case do == 4:
				try("nobody")
				try("banned")
				try("panic")
			case do == 5:
				try(user, "Origin", "https://evil.example")
			case do == 6:
				w.get(http.MethodGet, "/ws")
				w.get(http.MethodGet, "/ws", "Connection", "Upgrade", "Upgrade", "websocket", "Sec-WebSocket-Version", "7")
				w.get(http.MethodGet, "/probe")
			case do == 7:
				if c := try(user); c != nil {
					_ = c.ws.CloseNow() // without a hello
				}
			case do == 8:
				if c := try(user); c != nil {
					_ = c.ws.Write(t.Context(), websocket.MessageText, []byte(`{"t":"msg"}`))
					c.until("")
				}
			case do == 9:
				if c := try(user); c != nil && welcomed(c, `"user":"another"`) {
					t.Error("a resume for another user has been welcomed")
				}
			case len(open) == 0:
			case do == 10:
				_ = take().ws.Close(4001, "leaving")
			case do == 11:
				take().link.Cut()
			case do == 12: // a zombie is replaced
				zombie := take()
				zombie.link.Mute(true, true)
				c := try(zombie.welcome.User)
				if c != nil && welcomed(c, `"session":"`+zombie.welcome.Session+`"`) {
					open = append(open, c)
				}
				zombie.link.Cut()
			case do == 13:
				user := take().welcome.User
				w.srv.Disconnect(user, 1008, "out")
				open = slices.DeleteFunc(open, func(c *client) bool { return c.welcome.User == user })
			case do == 14:
				c := open[r.IntN(len(open))]
				c.msg(fmt.Sprint(r.Uint64()), "x")
			case do == 15:
				c := take()
				c.send(`{`)
				c.until("")
			}
		}
		for i := range 500 {
			cycle()
			if i%10 == 9 {
				time.Sleep(time.Duration(r.IntN(2000)) * time.Millisecond)
			}
			if i%25 == 24 {
				s := w.addsUp()
				want(t, "connections, live", []int{s.Connections, s.Live}, []int{len(open), len(open)})
			}
		}
		w.publish("s", "1")
		time.Sleep(time.Minute)
		s := w.addsUp()
		want(t, "connections, live", []int{s.Connections, s.Live}, []int{len(open), len(open)})
		if s.Welcomes < 100 || len(s.Denied) < 11 || s.Superseded == 0 || len(open) == 0 {
			t.Errorf("not much has happened: %+v", s)
		}
		if _, err := w.srv.Drain(t.Context(), time.Second); err != nil {
			t.Error(err)
		}
		try("ann")
		time.Sleep(time.Hour)
		s = w.addsUp()
		want(t, "connections, live, sessions, streams, of the network",
			[]int{s.Connections, s.Live, s.Sessions, s.Streams, w.net.Count()}, []int{0, 0, 0, 0, 0})
	})
}
