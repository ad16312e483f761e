package redisstore

import (
	"context"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/longwire/longwire/internal/pause"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// attempt is one of the tries of a call.
type attempt struct {
	gen uint64 // the generation that the script is told
	// Of the first try whose answer was lost.
	since    time.Duration // how long ago, 0 if there was none
	sinceGen uint64
}

// Waits between the tries of a call.
const (
	leastWait = 10 * time.Millisecond
	mostWait  = 500 * time.Millisecond
)

// call runs a script until it is answered, or ctx or the store ends. A try whose
// answer was lost may have taken effect: args, which makes the arguments behind the
// generation, is told so. The error then says why the store does not answer.
func (s *store) call(ctx context.Context, p *partition, script *redis.Script, keys []string, args func(attempt) ([]any, error)) (any, error) {
	ctx, cancel := s.within(ctx)
	defer cancel()
	var a attempt
	var lost time.Time
	var last error
	for wait := leastWait; ; wait = min(2*wait, mostWait) {
		if wait == mostWait && p.silence() >= staleAfter {
			// The beat finds out when Redis is back: many that wait need not.
			if pause.For(ctx, leastWait+mathrand.N(mostWait)) != nil { //nolint:gosec // spreads them
				return nil, s.away(ctx, last, !lost.IsZero())
			}
			continue
		}
		a.gen = p.generation()
		if !lost.IsZero() {
			a.since = max(time.Since(lost), 1)
		}
		argv, err := args(a)
		if err != nil {
			return nil, err
		}
		var reply any
		c, err := s.master(ctx, p)
		if err == nil {
			reply, err = script.Run(ctx, c, keys, append([]any{a.gen}, argv...)...).Result()
		}
		switch o := outcomeOf(err); o {
		case answered:
			p.heard()
			return reply, explain(err, keys)
		case stale:
			p.heard()
			if err = s.connect(ctx, c, p); err == nil && wait < mostWait {
				continue
			}
		case unsent:
		case unknown:
			if lost.IsZero() {
				lost, a.sinceGen = time.Now(), a.gen
			}
		}
		s.relocate(ctx)
		last = err
		if pause.For(ctx, wait) != nil {
			return nil, s.away(ctx, last, !lost.IsZero())
		}
	}
}

// within bounds a call by the life of the store.
func (s *store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(s.ctx, func() { cancel(errClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

var errClosed = errors.New("redisstore: the store is closed")

// awayError is the error of a call that Redis has not answered.
type awayError struct {
	cause error // why ctx ended
	last  error // of the last try
	lost  bool  // whether it may have taken effect
}

func (e *awayError) Error() string {
	text := "redisstore: Redis does not answer: " + e.cause.Error()
	if e.last != nil {
		text += ": " + e.last.Error()
	}
	return text
}

func (e *awayError) Unwrap() []error {
	if e.last == nil {
		return []error{e.cause}
	}
	return []error{e.cause, e.last}
}

func (s *store) away(ctx context.Context, last error, lost bool) error {
	return &awayError{cause: context.Cause(ctx), last: last, lost: lost}
}

// bounded is ctx with the end that calls have which nobody waits for longer.
func (s *store) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, s.o.Timeout, errTimeout)
}

var errTimeout = errors.New("no answer within the timeout")

// outcome is what is known of a try.
type outcome int

const (
	answered outcome = iota // Redis said yes or no
	stale                   // refused: another generation is in force
	unsent                  // it had no effect, try again
	unknown                 // it may have had one
)

func outcomeOf(err error) outcome {
	if err == nil {
		return answered
	}
	if refusal, ok := errors.AsType[redis.Error](err); ok {
		text := refusal.Error()
		for _, p := range []string{"MOVED ", "ASK ", "TRYAGAIN ", "CLUSTERDOWN ", "LOADING ", "MASTERDOWN ", "READONLY ", "NOREPLICAS ", "BUSY "} {
			if strings.HasPrefix(text, p) {
				return unsent
			}
		}
		if strings.HasPrefix(text, "ERR max number of clients") {
			return unsent
		}
		if strings.HasPrefix(text, "STALE ") {
			return stale
		}
		return answered
	}
	if op, ok := errors.AsType[*net.OpError](err); ok && op.Op == "dial" {
		return unsent
	}
	if errors.Is(err, redis.ErrPoolTimeout) || errors.Is(err, errNoMaster) || errors.Is(err, errConnect) {
		return unsent
	}
	if strings.HasPrefix(err.Error(), "failed to initialize connection options") {
		return unsent // as the client says it of a connection that it did not get to use
	}
	return unknown
}

// explain turns what a script says into an error of the contract.
func explain(err error, keys []string) error {
	if err == nil {
		return nil
	}
	switch text := err.Error(); {
	case strings.HasPrefix(text, "UNCERTAIN"):
		return server.ErrUncertain
	case strings.HasPrefix(text, "NOSESSION"):
		return server.ErrNoSession
	case strings.HasPrefix(text, "FULL"):
		return stream.ErrFull
	case strings.HasPrefix(text, "WRONGTYPE"): // it names the key
		return fmt.Errorf("redisstore: %w", err)
	default:
		return fmt.Errorf("redisstore: %s: %w", keys[len(keys)-1], err)
	}
}

// plain are arguments that are the same in each try.
func plain(args ...any) func(attempt) ([]any, error) {
	return func(attempt) ([]any, error) { return args, nil }
}
