package server

import (
	"context"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/longwire/longwire/wire"
)

// drain is what is known of the drain, guarded by Server.mu.
type drain struct {
	unready  bool      // Ready says no
	refusing bool      // upgrades are refused
	until    time.Time // the end of the window, once refusing
}

// DrainReport says what became of the connections that were open when the window of
// a drain began.
type DrainReport struct {
	Connections int           // how many these were: the sum of the next three
	Moved       int           // gone before their turn: to another node, or for reasons of their own
	Closed      int           // closed with 1012, and gone
	Forced      int           // not gone when the time was over, closed or not
	Took        time.Duration // from the call to the end
}

// Drain empties the node for a restart. At once Ready says no; upgrades are still
// served for Options.DrainGrace, until the balancer has noticed. Then they are
// refused with 503 and Retry-After, clients are told to open a connection elsewhere
// beside this one, and the connections are closed with 1012 one after the other over
// the window: clients that do not know the drain frame over all of it, the others
// over its second half, by which they may have moved. Until its turn a connection
// gets events and its messages are handled. If one is being handled then, it is
// answered first; those behind it are refused for now, so that the client can send
// them to the next node. Who is closed
// is asked to come back after the window and RestartTime, within Spread.
//
// A window of zero closes all at once, and nobody is told to move: for clients of
// other makers that is a herd. A negative one is taken as zero. ctx bounds the whole:
// at its end whatever is still open is dropped, so give it some seconds beyond grace
// and window; without a deadline a peer may take about five seconds for its goodbye,
// and a handler as long as it likes.
//
// Drain returns when all connections are gone and no message is being handled any
// more, or ctx has ended. The error is ErrDraining when Drain was called before,
// ErrClosed when the server is closed or was meanwhile, and else ctx's, with a
// report that is complete all the same. Publishing goes on, for who comes back to a
// state that is saved; Close ends the rest.
func (s *Server) Drain(ctx context.Context, window time.Duration) (DrainReport, error) {
	begun := time.Now()
	if err := s.beginDrain(); err != nil {
		return DrainReport{}, err
	}
	defer s.counters.drained.Store(true)
	s.log.Info("longwire: drain: not ready", "grace", s.opts.DrainGrace, "window", window)
	s.pause(ctx, s.opts.DrainGrace, nil)

	window = max(window, 0)
	conns := s.refuseUpgrades(window)
	s.log.Info("longwire: drain: closing", "connections", len(conns), "window", window)
	closed := s.closeInTurn(ctx, conns, window)
	s.awaitQuiet(ctx)
	left := s.connections()
	for _, c := range left {
		delete(closed, c)
		if ctx.Err() != nil { // else they get the goodbye of Close
			c.end()
		}
	}
	report := DrainReport{Connections: len(conns), Closed: len(closed), Forced: len(left), Took: time.Since(begun)}
	report.Moved = report.Connections - report.Closed - report.Forced
	s.log.Info("longwire: drain: done", "connections", report.Connections, "moved", report.Moved,
		"closed", report.Closed, "forced", report.Forced, "took", report.Took)
	s.counters.forced.Add(uint64(report.Forced)) //nolint:gosec // a count
	if s.isClosed() {
		return report, ErrClosed
	}
	return report, ctx.Err()
}

// Ready returns a handler that answers 200 while the node should get connections,
// and 503 from the beginning of a drain, or Close, and while the store does not
// answer. It needs no login: it is for a balancer.
func (s *Server) Ready() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.mu.Lock()
		unready, closed := s.drain.unready, s.closed
		s.mu.Unlock()
		switch {
		case closed:
			reject(w, deniedClosed, 0)
		case unready:
			reject(w, deniedDraining, 0)
		case s.store.Stale() > 0:
			reject(w, deniedStore, 0)
		default:
			w.Header().Set("Cache-Control", "no-store")
			_, _ = w.Write([]byte("ready\n")) // fails only when the peer has gone
		}
	})
}

func (s *Server) beginDrain() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return ErrClosed
	case s.drain.unready:
		return ErrDraining
	}
	s.drain.unready = true
	return nil
}

// pause waits for d, or less when the time or the server ends or gone is closed.
func (s *Server) pause(ctx context.Context, d time.Duration, gone <-chan struct{}) {
	if d <= 0 {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-gone:
	case <-ctx.Done():
	case <-s.ctx.Done():
	}
}

// refuseUpgrades begins the window and returns the connections that there are.
func (s *Server) refuseUpgrades(window time.Duration) []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drain.refusing, s.drain.until = true, time.Now().Add(window)
	return s.allConns()
}

// closeInTurn closes the connections over the window, as long as there is time, and
// returns those that it closed.
func (s *Server) closeInTurn(ctx context.Context, conns []*conn, window time.Duration) map[*conn]struct{} {
	closed := make(map[*conn]struct{}, len(conns))
	for _, turn := range turns(conns, window) {
		s.pause(ctx, time.Until(turn.at), turn.conn.stop)
		if ctx.Err() != nil || s.ctx.Err() != nil {
			break
		}
		if turn.conn.retire(s.drained()) {
			closed[turn.conn] = struct{}{}
		}
	}
	return closed
}

// drained is the close of a connection whose turn it is. The window must have begun.
func (s *Server) drained() *closing {
	left := max(time.Until(s.drain.until), 0)
	low := left + s.opts.RestartTime
	return &closing{
		code: wire.CloseRestart, reason: wire.RetryReason(low, low+s.opts.Spread),
		denial: deniedDraining,
	}
}

// turn is when a connection is to be closed.
type turn struct {
	conn *conn
	at   time.Time
}

// turns spreads connections evenly over a window that begins now, and tells those
// that may move.
func turns(conns []*conn, window time.Duration) []turn {
	rand.Shuffle(len(conns), func(i, j int) { conns[i], conns[j] = conns[j], conns[i] })
	now := time.Now()
	all := make([]turn, 0, len(conns))
	var staying, moving []*conn
	for _, c := range conns {
		switch {
		case c.isGreeting():
			all = append(all, turn{c, now})
		case c.base || window == 0:
			staying = append(staying, c)
		default:
			c.answer(wire.Drain{Within: window.Milliseconds()})
			moving = append(moving, c)
		}
	}
	spread := func(conns []*conn, from, to time.Duration) {
		for i, c := range conns {
			at := from + time.Duration(float64(to-from)*float64(i+1)/float64(len(conns)))
			all = append(all, turn{c, now.Add(at)})
		}
	}
	spread(staying, 0, window)
	spread(moving, window/2, window)
	slices.SortFunc(all, func(a, b turn) int { return a.at.Compare(b.at) })
	return all
}

// isGreeting reports whether the connection has no welcome yet.
func (c *conn) isGreeting() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.greeting
}

// retire closes the connection, once the message that is being handled is answered.
// It reports whether that is why the connection will be closed.
func (c *conn) retire(how *closing) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.msgs.running {
		return c.closeLocked(how)
	}
	if c.bye != nil || c.ended {
		return false
	}
	c.retiring = how
	for _, m := range c.msgs.queue {
		c.putOff(m)
	}
	c.dropMessages()
	return true
}

// putOff refuses a message for now, as it will not be begun here: the next node may
// be sent it even if that one remembers no ids. It needs c.mu.
func (c *conn) putOff(m wire.Msg) {
	c.s.counters.refused.Add(1)
	c.answerLocked(wire.Nack{
		ID: m.ID, Code: wire.NackBusy, Reason: "the node goes away", HasRetry: true, Retry: goodbye.Milliseconds(),
	})
}

// awaitQuiet waits until all connections have ended and no message is being
// handled, or the time is over.
func (s *Server) awaitQuiet(ctx context.Context) {
	for !s.isQuiet() {
		select {
		case <-s.left:
		case <-ctx.Done():
			return
		case <-s.ctx.Done():
			return
		}
	}
}

func (s *Server) isQuiet() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns) == 0 && s.handling.Load() == 0
}

// refuses reports whether upgrades are refused, and when to come back.
func (s *Server) refuses() (denial, time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed:
		return deniedClosed, s.opts.RestartTime
	case s.drain.refusing:
		return deniedDraining, max(time.Until(s.drain.until), 0) + s.opts.RestartTime
	}
	return notDenied, 0
}
