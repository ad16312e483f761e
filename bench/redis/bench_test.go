package redis

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"

	"github.com/longwire/longwire/internal/redistest"
)

// source is the append script as redisstore puts it together.
func source(b *testing.B) string {
	b.Helper()
	text := "#!lua\n"
	for _, name := range []string{"common", "append"} {
		part, err := os.ReadFile("../../server/redisstore/lua/" + name + ".lua")
		if err != nil {
			b.Fatal(err)
		}
		text += string(part)
	}
	return text
}

var keys = []string{"{b}gen", "{b}m:s", "{b}e:s", "{b}c:s"}

// args are those of an event of 150 bytes, for a log with the default bounds.
func args(i int) []string {
	return []string{"1", "1.epoch", fmt.Sprintf("TAG%010d", i), strings.Repeat("1", 150), "1000", "1048576", "300000", "600000", "0"}
}

// client runs the script once.
type client func(ctx context.Context, args []string) error

func withGoRedis(b *testing.B, r *redistest.Server) client {
	b.Helper()
	c := goredis.NewClient(&goredis.Options{Addr: r.Addr(), MaxRetries: -1})
	b.Cleanup(func() { _ = c.Close() })
	script := goredis.NewScript(source(b))
	return func(ctx context.Context, args []string) error {
		argv := make([]any, len(args))
		for i, a := range args {
			argv[i] = a
		}
		return script.Run(ctx, c, keys, argv...).Err()
	}
}

func withRueidis(b *testing.B, r *redistest.Server) client {
	b.Helper()
	c, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{r.Addr()}, DisableCache: true, DisableRetry: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(c.Close)
	script := rueidis.NewLuaScript(source(b))
	return func(ctx context.Context, args []string) error {
		return script.Exec(ctx, c, keys, args).Error()
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, publishers := range []int{1, 8, 64} {
		for _, with := range []struct {
			name string
			open func(*testing.B, *redistest.Server) client
		}{{"go-redis", withGoRedis}, {"rueidis", withRueidis}} {
			b.Run(fmt.Sprintf("publishers=%d/%s", publishers, with.name), func(b *testing.B) {
				r := redistest.Start(b)
				r.Do("HSET", keys[0], "gen", "1")
				run := with.open(b, r)
				work := make(chan int)
				var wg sync.WaitGroup
				for range publishers {
					wg.Go(func() {
						for i := range work {
							if err := run(b.Context(), args(i)); err != nil {
								b.Error(err)
							}
						}
					})
				}
				for i := 0; b.Loop(); i++ {
					work <- i
				}
				close(work)
				wg.Wait()
			})
		}
	}
}
