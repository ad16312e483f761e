package main

import (
	"context"
	"log/slog"
	"time"

	"github.com/longwire/longwire/server"
)

// newLongwire serves in default settings, but for the time over which clients come back:
// by default as long as is right for 1,000 of them.
func newLongwire(origins []string, spread time.Duration) (endpoint, error) {
	s, err := server.New(server.Options{
		Origins: origins, NoOrigin: true, Spread: spread, Logger: slog.New(slog.DiscardHandler),
	})
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
