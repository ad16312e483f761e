//go:build linux

package main

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// The paths of the servers' endpoints.
const (
	pathOpen         = "/"
	pathUnauthorized = "/unauthorized" // knows nobody
	pathTurnAway     = "/turn-away"    // has let through all that it ever will
	pathTurnedAway   = "/turned-away"  // and has no close codes left either
	pathClosed       = "/closed"
)

// channel is the stream that events are published to.
const channel = "bench"

// endpoints is a server under measurement.
type endpoints struct {
	handler http.Handler
	publish func(stream string, data []byte) error
}

// In a second: more than ever come, and so few that after the first, which is always
// let through, there is none.
const (
	unbounded = 1e6
	none      = 0.001
)

// newLongwire serves in default settings, except that as many as want to may come at
// once, and follow as many streams as they want.
func newLongwire(set settings) (endpoints, error) {
	mux := http.NewServeMux()
	add := func(path string, change func(*server.Options)) (*server.Server, error) {
		o := server.Options{
			Admission: server.Admission{Connections: unbounded, Handshakes: unbounded},
			Follows:   unbounded,
			Logger:    slog.New(slog.DiscardHandler),
		}
		if set.Quiet {
			o.Heartbeat = 5 * time.Minute
		}
		if set.Events > 0 {
			o.Log = stream.Limits{Events: set.Events, Bytes: 1 << 40, Age: time.Hour}
		}
		change(&o)
		s, err := server.New(o)
		if err == nil {
			mux.Handle(path, s)
		}
		return s, err
	}
	open, err := add(pathOpen, func(*server.Options) {})
	if err != nil {
		return endpoints{}, err
	}
	if _, err = add(pathUnauthorized, func(o *server.Options) {
		o.Authenticate = func(*http.Request) (server.Identity, error) { return server.Identity{}, server.ErrUnauthorized }
	}); err != nil {
		return endpoints{}, err
	}
	if _, err = add(pathTurnAway, func(o *server.Options) {
		o.Admission.Handshakes, o.Admission.TurnAways = none, unbounded
	}); err != nil {
		return endpoints{}, err
	}
	if _, err = add(pathTurnedAway, func(o *server.Options) {
		o.Admission.Handshakes, o.Admission.TurnAways = none, none
	}); err != nil {
		return endpoints{}, err
	}
	closed, err := add(pathClosed, func(*server.Options) {})
	if err != nil {
		return endpoints{}, err
	}
	for range 2 { // the one handshake that is let through, and the one close code
		useUp(mux, pathTurnAway)
		useUp(mux, pathTurnedAway)
	}
	return endpoints{
		handler: mux,
		publish: func(stream string, data []byte) error {
			_, err := open.Publish(context.Background(), stream, data)
			return err
		},
	}, closed.Close()
}

// useUp makes a handshake that counts and comes to nothing.
func useUp(handler http.Handler, path string) {
	r := httptest.NewRequestWithContext(context.Background(), http.MethodGet, path, nil)
	r.Header.Set("Origin", "http://"+r.Host)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	r.Header.Set("Sec-WebSocket-Version", "13")
	r.Header.Set("Sec-WebSocket-Key", "dGhlIHNhbXBsZSBub25jZQ==")
	handler.ServeHTTP(httptest.NewRecorder(), r)
}
