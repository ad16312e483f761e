package server

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/longwire/longwire/wire"
)

const (
	// authorizeTime bounds one call of Authorize.
	authorizeTime = 10 * time.Second
	// busyRetry is when to ask again after a call that took longer.
	busyRetry = 5 * time.Second
)

// authorize asks the application and returns an answer with an error, or one
// without.
func (c *conn) authorize(stream string) wire.Answer {
	if c.s.opts.Authorize == nil {
		return wire.Answer{}
	}
	ctx, cancel := context.WithTimeout(c.s.ctx, authorizeTime)
	defer cancel()
	err := c.s.guard("Authorize", func() error { return c.s.opts.Authorize(ctx, c.identity, stream) })
	if err == nil {
		return wire.Answer{}
	}
	if r, ok := errors.AsType[*Refusal](err); ok && r.Retry > 0 {
		return wire.Answer{Error: wire.ErrBusy, Retry: presentable(r).Retry.Milliseconds()}
	}
	if ctx.Err() != nil {
		c.s.log.Error("longwire: Authorize took too long", "stream", stream, "error", err)
		return wire.Answer{Error: wire.ErrBusy, Retry: busyRetry.Milliseconds()}
	}
	return wire.Answer{Error: wire.ErrForbidden}
}

// follow authorises a stream that is not followed yet and adds it without a
// position. The answer has an error, or the caller must ask for the rest. It runs
// where no other goroutine changes the set: before the others start, or in the
// subs lane.
func (c *conn) follow(stream string, want wire.Want) (*follow, wire.Answer) {
	if a := c.authorize(stream); a.Error != "" {
		return nil, a
	}
	limit := wire.Answer{Error: wire.ErrLimit}
	c.mu.Lock()
	named := len(c.follows)
	c.mu.Unlock()
	if c.session != nil {
		named-- // its own stream
	}
	if named >= c.s.opts.Follows {
		return nil, limit
	}
	ctx, cancel := c.s.storeContext()
	defer cancel()
	t, err := c.s.topics.follow(ctx, stream)
	if errors.Is(err, ErrTooManyStreams) {
		return nil, limit
	}
	if err != nil {
		return nil, c.s.streamAway(stream, err)
	}
	if err = c.s.sync(t, want); err != nil {
		c.s.topics.leave(t)
		return nil, c.s.streamAway(stream, err)
	}
	f := &follow{conn: c, topic: t}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		c.s.topics.leave(t)
		return nil, limit // nobody reads it
	}
	c.follows = append(c.follows, f)
	return f, wire.Answer{}
}

// again asks whether a stream that is followed may be asked for once more.
func (c *conn) again(f *follow, want wire.Want) (refused wire.Answer) {
	if !f.topic.isOwn() {
		refused = c.authorize(f.topic.name)
	}
	if refused.Error != "" {
		return refused
	}
	if err := c.s.sync(f.topic, want); err != nil {
		return c.s.streamAway(f.topic.name, err)
	}
	return wire.Answer{}
}

// unfollow gives a stream up, if it is followed.
func (c *conn) unfollow(stream string) {
	c.mu.Lock()
	f := c.find(stream)
	if f != nil {
		f.dropped = true
		c.follows = slices.DeleteFunc(c.follows, func(other *follow) bool { return other == f })
	}
	c.mu.Unlock()
	if f != nil {
		f.drop(c.s)
	}
}

// call works the subs lane, in which everything that changes what is followed runs
// in order.
func call(f func()) { f() }

func (c *conn) unsubscribe(unsub wire.Unsub) {
	if c.isOpen() {
		c.unfollow(unsub.Stream)
	}
}

// subscribe answers one sub.
func (c *conn) subscribe(sub wire.Sub) {
	if !c.isOpen() {
		return
	}
	c.mu.Lock()
	f := c.find(sub.Stream)
	c.mu.Unlock()
	var refused wire.Answer
	if f == nil {
		f, refused = c.follow(sub.Stream, sub.Want)
	} else {
		refused = c.again(f, sub.Want)
	}
	if refused.Error != "" {
		c.unfollow(sub.Stream)
		c.answer(wire.Subbed{Stream: sub.Stream, Answer: refused})
		return
	}
	var learned *flight
	if !sub.Want.Has {
		learned = c.learn([]*topic{f.topic})[f.topic]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.answerLocked(wire.Subbed{Stream: sub.Stream, Answer: c.ask(f, sub.Want, learned)})
}
