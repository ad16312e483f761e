package server

import (
	"context"
	"errors"
	"fmt"

	"github.com/longwire/longwire/wire"
)

// Publish appends an event to a named stream, which is created if nobody knows it
// yet, and returns the event's number. data is one JSON value; it is copied, and
// may be at most as large as the log (Options.Log.Bytes). The call does not wait
// for followers. The error names what is wrong with stream or data, or is
// ErrClosed, ErrSealed, or ctx's; then nothing was published.
func (s *Server) Publish(ctx context.Context, stream string, data []byte) (seq uint64, err error) {
	if !wire.ValidStream(stream) {
		return 0, fmt.Errorf("server: publish: stream %q: must be 1 to 128 bytes of [A-Za-z0-9._:/-]", clip(stream, wire.MaxStreamName))
	}
	if err = s.mayPublish(ctx, data); err != nil {
		return 0, fmt.Errorf("server: publish to %s: %w", stream, err)
	}
	seq, err = s.store.Publish(ctx, stream, data)
	if err != nil {
		return 0, fmt.Errorf("server: publish to %s: %w", stream, err)
	}
	s.counters.published.Add(1)
	return seq, nil
}

// PublishTo appends an event to the own stream of each session of user, with a
// connection or without, and returns how many those are. With none the event goes
// nowhere: keep a named stream per user for what must not be missed. Anonymous
// sessions belong to nobody. data and errors are as for Publish.
func (s *Server) PublishTo(ctx context.Context, user string, data []byte) (sessions int, err error) {
	if user == "" {
		return 0, errors.New("server: publish: user must not be empty")
	}
	if err = s.mayPublish(ctx, data); err != nil {
		return 0, fmt.Errorf("server: publish to a user: %w", err)
	}
	sessions, err = s.store.PublishTo(ctx, user, data)
	s.counters.published.Add(uint64(sessions)) //nolint:gosec // a count
	if err != nil {
		return sessions, fmt.Errorf("server: publish to a user: %w", err)
	}
	return sessions, nil
}

// PublishToSession appends an event to the own stream of one session, as a Message
// names it, with a connection or without. It returns the event's number. The error
// is ErrNoSession when the session is not known here, or was forgotten; else data and
// errors are as for Publish.
func (s *Server) PublishToSession(ctx context.Context, session string, data []byte) (seq uint64, err error) {
	if err = s.mayPublish(ctx, data); err != nil {
		return 0, fmt.Errorf("server: publish to a session: %w", err)
	}
	if seq, err = s.store.PublishToSession(ctx, session, data); err != nil {
		return 0, fmt.Errorf("server: publish to a session: %w", err)
	}
	s.counters.published.Add(1)
	return seq, nil
}

func (s *Server) mayPublish(ctx context.Context, data []byte) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.isClosed() {
		return ErrClosed
	}
	if s.sealed.Load() {
		return ErrSealed
	}
	if err := checkPayload(data); err != nil {
		return fmt.Errorf("data: %w", err)
	}
	return nil
}
