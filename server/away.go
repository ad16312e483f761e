package server

import (
	"context"
	"time"

	"github.com/longwire/longwire/wire"
)

// storeTime is how long a resume, or a sub, waits for the store.
const storeTime = 5 * time.Second

// storeContext is that of a call of the store. The one in memory answers at once: a timer
// for each call costs more than that.
func (s *Server) storeContext() (context.Context, context.CancelFunc) {
	if s.memory != nil {
		return s.ctx, func() {}
	}
	return context.WithTimeout(s.ctx, storeTime)
}

// knows asks the store for a session, and not at all when it is known to be away.
func (s *Server) knows(ctx context.Context, session, user string) (bool, error) {
	if s.store.Stale() > 0 {
		return false, errStoreSilent
	}
	if session == "" {
		return false, nil
	}
	return s.store.Knows(ctx, session, user)
}

// storeAway is the close of a connection that cannot be confirmed without the store.
func (s *Server) storeAway(err error) *closing {
	if s.ctx.Err() == nil {
		s.log.Error("longwire: no welcome: the store does not answer", "error", err)
	}
	return &closing{wire.CloseTryLater, s.admission.later().reason(), deniedStore}
}

// streamAway is the answer to who cannot follow a stream without the store.
func (s *Server) streamAway(stream string, err error) wire.Answer {
	if s.ctx.Err() == nil {
		s.log.Error("longwire: a stream is refused for now: the store does not answer", "stream", stream, "error", err)
	}
	return wire.Answer{Error: wire.ErrBusy, Retry: busyRetry.Milliseconds()}
}

// sync sees to it that a position is judged by what the store holds, of which this
// node may not have heard yet.
func (s *Server) sync(t *topic, want wire.Want) error {
	log := t.log()
	if !want.Has || want.Epoch == log.Epoch() && want.After <= log.Head() {
		return nil
	}
	ctx, cancel := s.storeContext()
	defer cancel()
	return t.feed.Sync(ctx)
}
