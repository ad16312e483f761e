package main

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/longwire/longwire/cmd/longwire/internal/faults"
	"github.com/longwire/longwire/internal/pause"
)

// Target is for [faults.Host].
func (s *site) Target() faults.Target {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.up == nil {
		return nil
	}
	return s.up.ws
}

// Restart is for [faults.Host]: it replaces the server as if its process had
// crashed and been started again.
func (s *site) Restart(down time.Duration, kill func()) error {
	in := s.take()
	if in == nil {
		return errDown
	}
	if err := in.listener.Close(); err != nil {
		return err
	}
	<-in.served
	kill()
	// The sockets are gone: no close frame of this gets out.
	err := in.ws.Close()
	s.again <- down
	return err
}

// Forgets is for [faults.Host].
func (s *site) Forgets() bool { return s.config.store == "" }

// startAgain listens on the same address after down.
func (s *site) startAgain(ctx context.Context, address string, down time.Duration) error {
	if err := pause.For(ctx, down); err != nil {
		return err
	}
	ws, err := s.newServer() //nolint:contextcheck // it ends by Close
	if err != nil {
		return err
	}
	listener, err := s.relisten(ctx, address)
	if err != nil {
		return errors.Join(err, ws.Close())
	}
	s.start(listener, ws)
	s.log.Info("serving again", "addr", address)
	return nil
}

// relisten waits until the address is free again.
func (s *site) relisten(ctx context.Context, address string) (net.Listener, error) {
	deadline := time.Now().Add(relistenTime)
	for {
		listener, err := s.listen(ctx, address)
		if err == nil || time.Now().After(deadline) {
			return listener, err
		}
		if err := pause.For(ctx, 20*time.Millisecond); err != nil {
			return nil, err
		}
	}
}
