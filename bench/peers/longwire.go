package main

import (
	"context"
	"log/slog"

	"github.com/longwire/longwire/server"
)

// newLongwire serves in default settings.
func newLongwire(origins []string) (endpoint, error) {
	s, err := server.New(server.Options{Origins: origins, NoOrigin: true, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return endpoint{}, err
	}
	return endpoint{
		handler: s,
		publish: func(data []byte) error {
			_, err := s.Publish(context.Background(), channel, data)
			return err
		},
	}, nil
}
