package redisstore

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/longwire/longwire/internal/pause"
)

// subscription is a connection on which new entries arrive: one for all streams, and
// in a Cluster one for each partition that is in use. Whatever ends it, another one is
// made; as Redis confirms each channel, its feed reads what it may have missed.
type subscription struct {
	s    *store
	wake chan struct{} // want has changed

	mu   sync.Mutex
	err  error            // why the last connection has ended
	want map[string]*feed // by channel
	// leaving counts the channels whose end was asked for and not yet confirmed.
	leaving map[string]int
}

const (
	subscriptionPing = 2 * time.Second
	// subscriptionSilence is when the connection is taken for dead.
	subscriptionSilence = 3 * subscriptionPing
	subscribeAtOnce     = 500 // channels
)

func newSubscription(s *store) *subscription {
	b := &subscription{s: s, wake: make(chan struct{}, 1), want: make(map[string]*feed)}
	s.wg.Go(b.run)
	return b
}

func (b *subscription) add(f *feed) {
	b.mu.Lock()
	b.want[f.p.channel(f.name)] = f
	b.mu.Unlock()
	poke(b.wake)
}

func (b *subscription) remove(f *feed) {
	channel := f.p.channel(f.name)
	b.mu.Lock()
	if b.want[channel] == f {
		delete(b.want, channel)
	}
	b.mu.Unlock()
	poke(b.wake)
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is waiting there already
	}
}

func (b *subscription) run() {
	wait := leastWait
	for b.s.ctx.Err() == nil {
		if b.idle() {
			select {
			case <-b.wake:
			case <-b.s.ctx.Done():
			}
			continue
		}
		began := time.Now()
		err := b.serve()
		b.mu.Lock()
		b.err = err
		b.mu.Unlock()
		if time.Since(began) > subscriptionSilence {
			wait = leastWait
		}
		if b.s.ctx.Err() == nil {
			b.s.log.Warn("longwire: subscription to Redis has ended; making another", "error", err)
		}
		b.s.relocate(b.s.ctx)
		_ = pause.For(b.s.ctx, wait) // the loop looks at ctx
		wait = min(2*wait, mostWait)
	}
}

func (b *subscription) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.want) == 0
}

// serve keeps one connection until it fails.
func (b *subscription) serve() error {
	b.mu.Lock()
	b.leaving = make(map[string]int)
	b.mu.Unlock()
	ctx, cancel := context.WithCancelCause(b.s.ctx)
	defer cancel(nil)
	ps := b.s.client.SSubscribe(ctx)
	defer ps.Close() //nolint:errcheck // it has failed already, or the store is closed
	have := make(map[string]*feed)
	if err := b.change(ctx, ps, have); err != nil {
		return err
	}
	var reader sync.WaitGroup
	reader.Go(func() { cancel(b.receive(ctx, ps)) })
	err := b.write(ctx, ps, have)
	cancel(err)
	_ = ps.Close() // ends the reader
	reader.Wait()
	return context.Cause(ctx)
}

// write asks for channels as they are wanted, and for signs of life.
func (b *subscription) write(ctx context.Context, ps *redis.PubSub, have map[string]*feed) error {
	ticker := time.NewTicker(subscriptionPing)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-b.wake:
			err = b.change(ctx, ps, have)
		case <-ticker.C:
			err = ps.Ping(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// change asks for what is wanted and not there, and for the end of what is there and
// not wanted. A feed that took the place of another one needs a confirmation of its own.
func (b *subscription) change(ctx context.Context, ps *redis.PubSub, have map[string]*feed) error {
	var begin, end []string
	b.mu.Lock()
	for channel, f := range b.want {
		if have[channel] != f {
			have[channel] = f
			begin = append(begin, channel)
		}
	}
	for channel := range have {
		if b.want[channel] == nil {
			delete(have, channel)
			b.leaving[channel]++
			end = append(end, channel)
		}
	}
	b.mu.Unlock()
	for part := range slices.Chunk(begin, subscribeAtOnce) {
		if err := ps.SSubscribe(ctx, part...); err != nil {
			return err
		}
	}
	for part := range slices.Chunk(end, subscribeAtOnce) {
		if err := ps.SUnsubscribe(ctx, part...); err != nil {
			return err
		}
	}
	return nil
}

var (
	errSilent = errors.New("no sign of life")
	errMoved  = errors.New("the channel has moved to another node")
)

// receive takes what arrives.
func (b *subscription) receive(ctx context.Context, ps *redis.PubSub) error {
	for {
		message, err := ps.ReceiveTimeout(ctx, subscriptionSilence)
		if err != nil {
			if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
				return errSilent
			}
			return err
		}
		switch m := message.(type) {
		case *redis.Message:
			if f := b.feed(m.Channel); f != nil {
				f.arrive(m.Payload)
			}
		case *redis.Subscription:
			if m.Kind == "ssubscribe" {
				if f := b.feed(m.Channel); f != nil {
					f.subscribed()
				}
			} else if !b.left(m.Channel) {
				return errMoved
			}
		}
	}
}

func (b *subscription) lastErr() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.err
}

func (b *subscription) feed(channel string) *feed {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.want[channel]
}

// left reports whether the end of a channel was asked for.
func (b *subscription) left(channel string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.leaving[channel] == 0 {
		return false
	}
	b.leaving[channel]--
	if b.leaving[channel] == 0 {
		delete(b.leaving, channel)
	}
	return true
}
