package redisstore_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/redisstore"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/stream"
)

func wantRefusal(t *testing.T, o redisstore.Options, want string) {
	t.Helper()
	s, err := redisstore.Open(o)(storetest.Options())
	if err == nil {
		_ = s.Close()
	}
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("Open: %v, want an error with %q", err, want)
	}
	if err != nil && strings.Contains(err.Error(), "s3cret") {
		t.Errorf("the error repeats the password: %v", err)
	}
}

func TestOptionsNameWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, o := range map[string]redisstore.Options{
		`Options.Prefix: "a{b"`:      {URL: "redis://localhost", Prefix: "a{b"},
		"Options.Timeout: -1s":       {URL: "redis://localhost", Timeout: -time.Second},
		"Options.URL: redis: inval":  {URL: "http://u:s3cret@localhost"},
		"Options.URL: invalid port":  {URL: "redis://u:s3cret@localhost:x"},
		"unexpected option: colour":  {URL: "redis://u:s3cret@localhost?colour=red"},
		"invalid database number":    {URL: "redis://u:s3cret@localhost/x"},
		"Options.URL: redis: unable": {URL: "redis://u:s3cret@localhost?addr=x"},
	} {
		wantRefusal(t, o, want)
	}
}

func TestRedisThatIsNotFit(t *testing.T) {
	t.Parallel()
	primary := redistest.Start(t)
	replica := redistest.Start(t)
	host, port, _ := strings.Cut(primary.Addr(), ":")
	replica.Do("REPLICAOF", host, port)
	locked := redistest.Start(t, "--requirepass", "another")
	old := redistest.StartProxy(t, primary.Addr())
	old.Lie("redis_version:"+majorVersion(t, primary)+".", "redis_version:6.")
	for want, url := range map[string]string{
		"role \"slave\"":                replica.URL(),
		"version \"6.":                  old.URL(),
		"NOAUTH":                        locked.URL(),
		"WRONGPASS":                     "redis://:s3cret@" + locked.Addr(),
		"XADD fails":                    redistest.Start(t, "--rename-command", "XADD", "").URL(),
		"unknown command 'evalsha'":     redistest.Start(t, "--rename-command", "EVALSHA", "").URL(),
		"SPUBLISH fails":                redistest.Start(t, "--rename-command", "SPUBLISH", "").URL(),
		"unknown command 'ssubscribe'":  redistest.Start(t, "--rename-command", "SSUBSCRIBE", "").URL(),
		"OOM command not allowed":       redistest.Start(t, "--maxmemory", "1").URL(),
		"connection refused":            fmt.Sprintf("redis://127.0.0.1:%d", redistest.FreePort(t)),
		"NOREPLICAS":                    redistest.Start(t, "--min-replicas-to-write", "1").URL(),
		"can't run this command":        aclURL(t, "-xadd"),
		"can't publish to the channel":  aclURL(t, "resetchannels"),
		"no permissions to run the 'ss": aclURL(t, "-ssubscribe"),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			wantRefusal(t, redisstore.Options{URL: url}, want)
		})
	}
}

func majorVersion(t *testing.T, r *redistest.Server) string {
	t.Helper()
	info, _ := r.Do("INFO", "server").(string)
	_, rest, _ := strings.Cut(info, "redis_version:")
	major, _, ok := strings.Cut(rest, ".")
	if !ok || len(major) != 1 {
		t.Fatalf("INFO server: %s", info)
	}
	return major
}

func aclURL(t *testing.T, rule string) string {
	t.Helper()
	r := redistest.Start(t)
	r.Do("ACL", "SETUSER", "wire", "on", ">s3cret", "~*", "&*", "+@all", rule)
	return "redis://wire:s3cret@" + r.Addr()
}

func TestEvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	var log bytes.Buffer
	s := node(t, r.URL(), func(_ *redisstore.Options, so *server.StoreOptions) {
		so.Logger = slog.New(slog.NewTextHandler(&log, nil))
	})
	_ = s.Close()
	if !strings.Contains(log.String(), "noeviction") || !strings.Contains(log.String(), "allkeys-lru") {
		t.Errorf("log: %s", log.String())
	}
}

// Memory runs out: a publish fails and changes nothing, and reading goes on.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	f := follow(t, a)
	publish(t, a, "s", 1, 2)
	r.Do("CONFIG", "SET", "maxmemory", "1")
	if _, err := a.Publish(t.Context(), "s", []byte("0")); err == nil || !strings.Contains(err.Error(), "OOM") || errors.Is(err, server.ErrUncertain) {
		t.Errorf("Publish: %v, want OOM", err)
	}
	if err := f.feed.Sync(t.Context()); err != nil {
		t.Errorf("Sync: %v", err)
	}
	kill(r, "pubsub")
	kill(r, "normal")
	if _, err := a.Follow(t.Context(), "t"); err != nil {
		t.Errorf("Follow: %v", err)
	}
	r.Do("CONFIG", "SET", "maxmemory", "0")
	publish(t, a, "s", 3, 3)
	f.want(t, numbers(1, 3)...)
}

func TestKeyOfAnotherType(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"{t:0}m:s", "{t:0}e:s", "{t:0}gen"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			a := node(t, r.URL())
			r.Do("SET", key, "foreign")
			if _, err := a.Publish(t.Context(), "s", []byte("1")); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("Publish: %v, want an error that names the key", err)
			}
			if _, err := a.Follow(t.Context(), "s"); err == nil || !strings.Contains(err.Error(), key) {
				t.Errorf("Follow: %v, want an error that names the key", err)
			}
			r.Do("DEL", key)
			f := follow(t, a)
			publish(t, a, "s", 1, 1)
			f.want(t, "1")
		})
	}
}

// B126: entry 5 of 10 cannot be read. A resume from 2 must be a gap.
func TestCorruptEntry(t *testing.T) {
	t.Parallel()
	const entries, meta = "{t:0}e:s", "{t:0}m:s"
	tag := func(r *redistest.Server) string {
		return r.Client().HGet(t.Context(), meta, "tag").Val()
	}
	// add adds an entry 5 as if it had been published.
	add := func(r *redistest.Server, fields ...any) {
		r.Do(append([]any{"XADD", entries, "5-0"}, fields...)...)
		r.Do("HSET", meta, "head", 5)
	}
	for name, corrupt := range map[string]func(*redistest.Server){
		"no JSON":        func(r *redistest.Server) { add(r, "d", `{"a":`, "t", "1", "g", tag(r), "p", tag(r)) },
		"no UTF-8":       func(r *redistest.Server) { add(r, "d", "\"\xff\"", "t", "1", "g", tag(r), "p", tag(r)) },
		"no data":        func(r *redistest.Server) { add(r, "t", "1", "g", tag(r), "p", tag(r)) },
		"no time":        func(r *redistest.Server) { add(r, "d", "5", "t", "noon", "g", tag(r), "p", tag(r)) },
		"foreign fields": func(r *redistest.Server) { add(r, "name", "value") },
		"too large":      func(r *redistest.Server) { add(r, "d", strings.Repeat("1", 2<<20), "t", "1", "g", tag(r), "p", tag(r)) },
		"missing": func(r *redistest.Server) {
			add(r, "d", "5", "t", "1", "g", tag(r), "p", tag(r))
			r.Do("XDEL", entries, "5-0")
		},
		"a number of sorts": func(r *redistest.Server) {
			add(r, "d", "5", "t", "1", "g", tag(r), "p", tag(r))
			r.Do("XADD", entries, "5-3", "d", "5")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := redistest.Start(t)
			a := node(t, r.URL())
			live := follow(t, a)
			publish(t, a, "s", 1, 4)
			live.want(t, numbers(1, 4)...)
			epoch := live.feed.Log().Epoch()
			corrupt(r)
			publish(t, a, "s", 6, 10)
			live.want(t, "1", "2", "3", "4", gap, "6", "7", "8", "9", "10")

			b := node(t, r.URL())
			f := follow(t, b)
			log := f.feed.Log()
			if first, head := log.Bounds(); first != 5 || head != 10 || log.Epoch() != epoch || log.Covers(epoch, 2) {
				t.Errorf("epoch %q covers %d to %d, want %q, 5 to 10", log.Epoch(), first, head, epoch)
			}
			if n := b.Stats().Corrupt; n == 0 {
				t.Error("Stats counts no corrupt entry")
			}
			if got := storetest.Next(t, f.feed, 5, 5); got[0] != "6" || got[4] != "10" {
				t.Errorf("got %q", got)
			}
		})
	}
}

// Foreign entries beyond ours are in the way of the next one.
func TestForeignEntryBeyondTheHead(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	f := follow(t, a)
	publish(t, a, "s", 1, 2)
	f.want(t, "1", "2")
	r.Do("XADD", "{t:0}e:s", "*", "d", "1")
	b := node(t, r.URL())
	if log := follow(t, b).feed.Log(); log.Head() != 2 || log.First() != 2 {
		t.Errorf("covers %d to %d, want 2 to 2", log.First(), log.Head())
	}
	publish(t, a, "s", 3, 3)
	f.want(t, "1", "2", gap, "3")
}

func TestForeignMessageOnTheChannel(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	f := follow(t, a)
	for _, text := range []string{"", "E", "E a b c d e", "E x 7 t p 1", "F", "F x", "F 9", "hello"} {
		r.Do("SPUBLISH", "{t:0}c:s", text)
	}
	publish(t, a, "s", 1, 3)
	f.want(t, numbers(1, 3)...)
}

func TestLastNumber(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	follow(t, a).feed.Close()
	r.Do("HSET", "{t:0}m:s", "head", stream.MaxSeq-1)
	if seq, err := a.Publish(t.Context(), "s", []byte("1")); seq != stream.MaxSeq || err != nil {
		t.Errorf("Publish = %d, %v; want %d", seq, err, uint64(stream.MaxSeq))
	}
	if _, err := a.Publish(t.Context(), "s", []byte("2")); !errors.Is(err, stream.ErrFull) {
		t.Errorf("Publish: %v, want ErrFull", err)
	}
	if log := follow(t, a).feed.Log(); log.Head() != stream.MaxSeq || log.First() != stream.MaxSeq-1 {
		t.Errorf("covers %d to %d", log.First(), log.Head())
	}
}

// What was there before is gone, and is no array any more.
func TestCorruptAnswer(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	c := attach(t, a, "", "u", 0, nobody)
	admit(t, c, "1")
	c.Settle("1", yes)
	for _, record := range []string{"", "A", "R", "A" + strings.Repeat("x", 16) + "{", "\x00" + strings.Repeat("x", 40)} {
		r.Do("HSET", "{t:0}d:u", ":1", record)
		if f, err := c.Admit(t.Context(), "1", [16]byte([]byte(strings.Repeat("x", 16)))); err == nil && f.Kind == server.Admitted {
			t.Errorf("%q: admitted", record)
		}
	}
}
