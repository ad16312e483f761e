package redisstore_test

import (
	"context"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
)

// silence keeps what the client says of failed dials out of the tests.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

func TestMain(m *testing.M) {
	redis.SetLogger(silence{})
	os.Exit(m.Run())
}

// It is not parallel: what it looks for is in all goroutines.
func TestCloseEndsAll(t *testing.T) {
	r := redistest.Start(t)
	s, err := redisstore.Open(redisstore.Options{URL: r.URL(), Prefix: "t"})(storetest.Options())
	if err != nil {
		t.Fatal(err)
	}
	feed, err := s.Follow(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	publish(t, s, "s", 1, 3)
	attach(t, s, "", "u", 0, nobody)
	r.Stop()
	go func() { _ = feed.Sync(context.Background()) }()
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
	storetest.Eventually(t, "no goroutine is left", func() bool {
		stacks := make([]byte, 1<<20)
		stacks = stacks[:runtime.Stack(stacks, true)]
		return strings.Count(string(stacks), "server/redisstore.(*") == 0 && strings.Count(string(stacks), "go-redis") == 0
	})
}
