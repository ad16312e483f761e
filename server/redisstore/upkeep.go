package redisstore

import (
	"context"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// compareAfter is when a quiet stream is compared with the store: within a quarter
	// of it, so that many do not fall together.
	compareAfter   = 15 * time.Second
	upkeepInterval = time.Second
	atOnce         = 200 // commands in a pipeline
)

// beat asks for the generation of each partition, which renews the lease and shows
// that Redis answers.
func (s *store) beat() {
	ticker := time.NewTicker(beatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		ctx, cancel := context.WithTimeout(s.ctx, defaultReadTimeout)
		s.beatOnce(ctx)
		cancel()
	}
}

func (s *store) beatOnce(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	for c, partitions := range s.byMaster(ctx) {
		wg.Go(func() {
			pipe := c.Pipeline()
			cmds := make([]*redis.Cmd, len(partitions))
			for i, p := range partitions {
				cmds[i] = scriptConnect.EvalSha(ctx, pipe, s.connectKeys(p), s.connectArgs(p)...)
			}
			_, _ = pipe.Exec(ctx) // each command has its own error
			for i, p := range partitions {
				err := s.hear(p, cmds[i])
				if redis.HasErrorPrefix(err, "NOSCRIPT") {
					err = s.connect(ctx, c, p)
				}
				switch {
				case err == nil:
				case outcomeOf(err) == answered:
					s.log.Error("longwire: Redis refuses the beat", "error", err)
				default:
					s.relocate(ctx) // it may have moved
				}
			}
		})
	}
}

func (s *store) byMaster(ctx context.Context) map[*redis.Client][]*partition {
	byMaster := make(map[*redis.Client][]*partition)
	for _, p := range s.partitions {
		c, err := s.master(ctx, p)
		if err != nil {
			s.relocate(ctx)
			continue
		}
		byMaster[c] = append(byMaster[c], p)
	}
	return byMaster
}

// upkeep compares quiet streams, and renews what lives only as long as it is used.
func (s *store) upkeep() {
	ticker := time.NewTicker(upkeepInterval)
	defer ticker.Stop()
	renewed, kept := time.Now(), time.Now()
	for {
		select {
		case <-ticker.C:
		case <-s.ctx.Done():
			return
		}
		if s.Stale() > 0 {
			continue // all of it is done when Redis is back
		}
		s.compare()
		if time.Since(renewed) >= s.so.SessionLife/3-upkeepInterval {
			renewed = time.Now()
			s.renewSessions()
		}
		if time.Since(kept) >= s.so.DedupeWindow/3 {
			kept = time.Now()
			s.keepRecords()
		}
	}
}

// compare looks at the streams from which nothing was heard for long. This also makes
// their metadata live on.
func (s *store) compare() {
	quiet := s.feedsWhere(func(f *feed) bool { return f.isQuiet() })
	for _, p := range s.partitions {
		of := slices.Collect(func(yield func(*feed) bool) {
			for _, f := range quiet {
				if f.p == p && !yield(f) {
					return
				}
			}
		})
		for part := range slices.Chunk(of, atOnce) {
			s.pipelined(p, len(part), func(ctx context.Context, pipe redis.Pipeliner, i int) *redis.Cmd {
				f := part[i]
				return scriptRead.EvalSha(ctx, pipe, f.readKeys(), append([]any{p.generation()}, f.readArgs(p.generation(), f.position(), "", 0)...)...)
			}, func(i int, cmd *redis.Cmd) {
				part[i].compared(cmd)
			})
		}
	}
}

func (f *feed) isQuiet() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	after := compareAfter - time.Duration(mathrand.Int64N(int64(compareAfter/4))) //nolint:gosec // spreads them
	return !f.reading && f.log.Load() != nil && time.Since(f.looked) >= after
}

func (f *feed) position() position {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.head
}

// compared takes the answer to a comparison: what differs is read.
func (f *feed) compared(cmd *redis.Cmd) {
	reply, err := cmd.Result()
	if err == nil {
		if p, ok := parsePiece(reply); ok {
			f.heed(p.fence)
			f.mu.Lock()
			isSame := p.position == f.head
			if isSame {
				f.looked = time.Now()
			}
			f.mu.Unlock()
			if isSame {
				return
			}
		}
	}
	f.need()
}

// pipelined sends n commands at once.
func (s *store) pipelined(p *partition, n int, add func(context.Context, redis.Pipeliner, int) *redis.Cmd, take func(int, *redis.Cmd)) {
	ctx, cancel := s.bounded(s.ctx)
	defer cancel()
	c, err := s.master(ctx, p)
	if err != nil {
		return
	}
	pipe := c.Pipeline()
	cmds := make([]*redis.Cmd, n)
	for i := range cmds {
		cmds[i] = add(ctx, pipe, i)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, cmd := range cmds {
		take(i, cmd)
	}
}

func (s *store) renewSessions() {
	byPartition := make(map[*partition][]*session)
	s.mu.Lock()
	for c := range s.sessions {
		byPartition[c.p] = append(byPartition[c.p], c)
	}
	s.mu.Unlock()
	for p, sessions := range byPartition {
		for part := range slices.Chunk(sessions, atOnce) {
			s.pipelined(p, len(part), func(ctx context.Context, pipe redis.Pipeliner, i int) *redis.Cmd {
				return scriptRenew.EvalSha(ctx, pipe, part[i].renewKeys(), append([]any{p.generation()}, part[i].renewArgs()...)...)
			}, func(i int, cmd *redis.Cmd) {
				if gen, err := cmd.Uint64(); err == nil {
					part[i].own.fence(gen)
				} else {
					s.background(part[i].renew)
				}
			})
		}
	}
}

// keepRecords keeps those of messages that run for long.
func (s *store) keepRecords() {
	s.mu.Lock()
	all := make([]*running, 0, len(s.running))
	for _, r := range s.running {
		all = append(all, r)
	}
	s.mu.Unlock()
	for _, r := range all {
		records, order := r.c.p.recordKeys(r.c.user, r.c.id)
		for _, key := range []string{records, order} {
			ctx, cancel := s.bounded(s.ctx)
			if c, err := s.master(ctx, r.c.p); err == nil {
				_ = c.PExpire(ctx, key, 2*s.so.DedupeWindow) // again in a third of the window
			}
			cancel()
		}
	}
}
