package server

import (
	"log/slog"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/wire"
)

// A close between the upgrade and the wait for the hello: the wait must not begin.
func TestACloseBeforeTheWaitForTheHelloIsNotForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Options{NoOrigin: true, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		network := memnet.Listen()
		hs := &http.Server{ReadHeaderTimeout: time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			s.admission.enter("")
			c := s.upgrade(w, r)
			_ = s.add(c) // not closed yet
			c.close(&closing{code: wire.CloseGoingAway, reason: "server closed", denial: deniedClosed})
			begun := time.Now()
			c.greet() //nolint:contextcheck // the connection outlives the request
			if took := time.Since(begun); took != 0 {
				t.Errorf("it waited for the hello for %v", took)
			}
		})}
		go hs.Serve(network.Listener()) //nolint:errcheck // ends with ErrServerClosed
		defer hs.Close()                //nolint:errcheck // test
		ws, _, err := websocket.Dial(t.Context(), "ws://host/", &websocket.DialOptions{
			HTTPClient: &http.Client{Transport: &http.Transport{DialContext: network.DialContext, DisableKeepAlives: true}},
		})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err = ws.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
			t.Errorf("ended with %v, want 1001", err)
		}
		synctest.Wait()
		if stats := s.Stats(); stats.Connections != 0 || stats.Denied["closed"] != 1 {
			t.Errorf("%+v", stats)
		}
	})
}
