package redisstore

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// sinceMargin is added to the time since a try whose answer was lost, for what clocks
// are worth.
const sinceMargin = time.Second

// Publish implements server.Store.
func (s *store) Publish(ctx context.Context, name string, data []byte) (seq uint64, err error) {
	p := s.byName(name)
	reply, err := s.publish(ctx, p, scriptAppend, s.appendKeys(p, name), name, data)
	if err != nil {
		return 0, err
	}
	return number(reply)
}

// PublishTo implements server.Store.
func (s *store) PublishTo(ctx context.Context, user string, data []byte) (sessions int, err error) {
	p := s.byName(user)
	reply, err := s.publish(ctx, p, scriptAppendUser, []string{p.genKey(), p.userKey(user)}, ownName(""), data, p.prefix)
	if err != nil {
		return 0, err
	}
	n, ok := reply.(int64)
	if !ok {
		return 0, fmt.Errorf("redisstore: the script append_user returned %v", reply)
	}
	return int(n), nil
}

// PublishToSession implements server.Store.
func (s *store) PublishToSession(ctx context.Context, session string, data []byte) (seq uint64, err error) {
	p := s.bySession(session)
	if p == nil {
		return 0, server.ErrNoSession
	}
	name := ownName(session)
	reply, err := s.publish(ctx, p, scriptAppend, append(s.appendKeys(p, name), p.sessionKey(session)), name, data)
	if err != nil {
		return 0, err
	}
	return number(reply)
}

func (s *store) appendKeys(p *partition, name string) []string {
	return []string{p.genKey(), p.metaKey(name), p.entriesKey(name), p.channel(name)}
}

func number(reply any) (uint64, error) {
	text, _ := reply.(string)
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("redisstore: a script returned %v: must be a number", reply)
	}
	return n, nil
}

// publish runs one of the appending scripts. A try whose answer was lost is told from
// one that had no effect by the tag of the entry.
func (s *store) publish(
	ctx context.Context, p *partition, script *redis.Script, keys []string, name string, data []byte, before ...any,
) (any, error) {
	limits := s.so.Log
	if int64(len(data)) > limits.Bytes {
		return nil, fmt.Errorf("%w: %d bytes, at most %d", stream.ErrTooLarge, len(data), limits.Bytes)
	}
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = s.bounded(ctx)
		defer cancel()
	}
	tag := newTag()
	reply, err := s.call(ctx, p, script, keys, func(a attempt) ([]any, error) {
		var since time.Duration
		if a.since > 0 {
			if a.gen != a.sinceGen {
				return nil, server.ErrUncertain // what was there then has gone
			}
			since = a.since + sinceMargin
		}
		return append(before[:len(before):len(before)], epoch(a.gen), tag, data, limits.Events, limits.Bytes,
			limits.Age.Milliseconds(), s.life(name).Milliseconds(), since.Milliseconds()), nil
	})
	if away, ok := err.(*awayError); ok && away.lost { //nolint:errorlint // as call returns it
		return nil, fmt.Errorf("%w: %w", server.ErrUncertain, err)
	}
	return reply, err
}
