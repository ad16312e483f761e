package server

import (
	"context"
	"net"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// Listener returns l with a bound on how many connections a second it accepts:
// Admission.Accepts. The others wait in the kernel's queue, which costs nothing,
// where a refusal after a TLS handshake costs as much as the handshake. So put it
// below TLS. It knows no paths: what else is served on it, the probe say, is
// accepted at the same rate, so serve readiness and metrics on a listener of their
// own. It does not bound how many connections are open. A server that is closed
// bounds them still; closing the listener ends an Accept that waits.
func (s *Server) Listener(l net.Listener) net.Listener {
	ctx, cancel := context.WithCancel(context.Background())
	return &listener{Listener: l, ctx: ctx, cancel: cancel, limiter: perSecond(s.opts.Admission.Accepts), waits: &s.counters.acceptWaits}
}

type listener struct {
	net.Listener
	ctx     context.Context //nolint:containedctx // the life of the listener
	cancel  context.CancelFunc
	limiter *rate.Limiter
	waits   *atomic.Uint64
}

func (l *listener) Accept() (net.Conn, error) {
	if !l.limiter.Allow() {
		l.waits.Add(1)
		_ = l.limiter.Wait(l.ctx) // ends early when closed, as Accept will say
	}
	return l.Listener.Accept()
}

func (l *listener) Close() error {
	l.cancel()
	return l.Listener.Close()
}
