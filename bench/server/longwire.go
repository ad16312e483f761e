//go:build linux

package main

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/longwire/longwire/server"
)

// The paths of the servers' endpoints.
const (
	pathOpen         = "/"
	pathUnauthorized = "/unauthorized" // refuses whom it does not know
	pathClosed       = "/closed"       // refuses everybody
)

// channel is the one stream of all.
const channel = "bench"

// endpoints is a server under measurement.
type endpoints struct {
	handler http.Handler
	publish func(data []byte) error
}

func newLongwire(quiet bool) (endpoints, error) {
	options := server.Options{Logger: slog.New(slog.DiscardHandler)}
	if quiet {
		options.Heartbeat = time.Hour
	}
	mux := http.NewServeMux()
	add := func(path string, o server.Options) (*server.Server, error) {
		s, err := server.New(o)
		if err == nil {
			mux.Handle(path, s)
		}
		return s, err
	}
	open, err := add(pathOpen, options)
	if err != nil {
		return endpoints{}, err
	}
	closed, err := add(pathClosed, options)
	if err != nil {
		return endpoints{}, err
	}
	if err := closed.Close(); err != nil {
		return endpoints{}, err
	}
	options.Authenticate = func(*http.Request) (server.Identity, error) { return server.Identity{}, server.ErrUnauthorized }
	if _, err := add(pathUnauthorized, options); err != nil {
		return endpoints{}, err
	}
	return endpoints{
		handler: mux,
		publish: func(data []byte) error {
			_, err := open.Publish(context.Background(), channel, data)
			return err
		},
	}, nil
}
