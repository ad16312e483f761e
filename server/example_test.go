package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"log"
	"net/http"

	"github.com/longwire/longwire/server"
)

func Example() {
	var s *server.Server
	s, err := server.New(server.Options{
		Authenticate: func(r *http.Request) (server.Identity, error) {
			user, err := r.Cookie("user") // whatever your site's sessions look like
			if err != nil {
				return server.Identity{}, server.ErrUnauthorized
			}
			return server.Identity{User: user.Value}, nil
		},
		Authorize: func(_ context.Context, _ server.Identity, stream string) error {
			if stream != "chat" {
				return errors.New("no such stream")
			}
			return nil
		},
		OnMessage: func(ctx context.Context, m server.Message) (json.RawMessage, error) {
			_, err := s.Publish(ctx, "chat", m.Body)
			return nil, err
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	http.Handle("/longwire", s)
	http.Handle("/longwire/probe", s.Probe())
}
