//go:build unix

package fleet_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// publishLimit is how long publishing may take to fail: the 5 s after which a store
// gives up, and what a busy machine needs.
const publishLimit = 10 * time.Second

// TestWhileRedisIsAway wants that nobody is told anything false: who is connected stays
// so and is told how old the news are, who publishes gets an error, who comes is told to
// come later; and that all goes on when Redis is back.
func TestWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		leave, back func(*redis)
		gaps        int
	}{
		"paused":  {(*redis).pause, (*redis).resume, 0},
		"stopped": {(*redis).stop, (*redis).start, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			redis := startRedis(t)
			args := []string{"-store", redis.url(), "-heartbeat", "3s", "-spread", "1s"} // a client bears 7.5 s of silence
			a, b := start(t, args...), start(t, args...)
			cs := connect(t, balance(t, a, b).listener.Addr().String(), 20, 100)
			l := &ledger{t: t}
			l.through(a, b)
			l.begin(100 * time.Millisecond)
			l.await(10)
			watcher := dialRaw(t, a)
			l.stop()

			tc.leave(redis)
			begun := time.Now()
			if _, err := l.publish(); err == nil || time.Since(begun) > publishLimit {
				t.Errorf("publishing without Redis ended with %v after %v, want an error within %v", err, time.Since(begun), publishLimit)
			}
			watcher.until(t, "a heartbeat that says how old the news are", func(f wire.Frame) bool {
				hb, ok := f.(wire.Heartbeat)
				return ok && hb.Stale >= 1000
			})
			for _, p := range []*process{a, b} {
				eventually(t, "not ready", func() bool { return !p.isReady(t.Context()) })
				wantTurnedAway(t, p)
			}
			if left := 10*time.Second - time.Since(begun); left > 0 {
				time.Sleep(left) // that long is what this is about
			}
			tc.back(redis)

			for _, p := range []*process{a, b} {
				p.awaitReady()
			}
			watcher.until(t, "a heartbeat as ever", func(f wire.Frame) bool {
				hb, ok := f.(wire.Heartbeat)
				return ok && hb.Stale == 0
			})
			l.begin(100 * time.Millisecond)
			l.await(10)
			l.settle(cs, tc.gaps)
			cs.check(func(c *client) string {
				if c.c.Totals().Sessions != 1 {
					return "did not stay connected"
				}
				return ""
			})
		})
	}
}

// wantTurnedAway wants a resume to be told to come later.
func wantTurnedAway(t *testing.T, p *process) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+p.addr+"/ws", nil)
	if err != nil {
		t.Errorf("upgrade: %v, want it closed with %d later", err, wire.CloseTryLater)
		return
	}
	defer ws.CloseNow() //nolint:errcheck // it is over
	err = ws.Write(ctx, websocket.MessageText, []byte(`{"t":"resume","v":1}`))
	for err == nil {
		_, _, err = ws.Read(ctx)
	}
	if code := websocket.CloseStatus(err); int(code) != wire.CloseTryLater {
		t.Errorf("a resume ended with %v, want %d", err, wire.CloseTryLater)
	}
}

// A raw is a connection that shows every frame.
type raw struct {
	frames chan wire.Frame // closed at the end of the connection
	err    error           // of that
}

func dialRaw(t *testing.T, p *process) *raw {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ws, _, err := websocket.Dial(ctx, "ws://"+p.addr+"/ws", nil)
	if err != nil {
		t.Fatal(err)
	}
	r := &raw{frames: make(chan wire.Frame, 1000)}
	if err := ws.Write(ctx, websocket.MessageText, []byte(`{"t":"resume","v":1}`)); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(r.frames)
		for r.err == nil { // all the time, as pings are answered by the way
			var msg []byte
			if _, msg, r.err = ws.Read(ctx); r.err == nil {
				r.take(msg)
			}
		}
	}()
	t.Cleanup(func() {
		cancel()
		for range r.frames { // until it has ended
		}
	})
	r.until(t, "a welcome", func(f wire.Frame) bool {
		_, ok := f.(wire.Welcome)
		return ok
	})
	return r
}

func (r *raw) take(msg []byte) {
	var frames []wire.Frame
	frames, r.err = wire.Decode(msg)
	for _, f := range frames {
		r.frames <- f
	}
}

// until takes frames until there is the one that is waited for.
func (r *raw) until(t *testing.T, what string, ok func(wire.Frame) bool) {
	t.Helper()
	deadline := time.After(patience)
	for {
		select {
		case f, open := <-r.frames:
			if !open {
				t.Fatalf("waiting for %s: %v", what, r.err)
			}
			if ok(f) {
				return
			}
		case <-deadline:
			t.Fatalf("not within %v: %s", patience, what)
		}
	}
}

// TestAMessageWhoseNodeDied kills the node that is handling a message. Another node does
// not handle it again: its client is told that the outcome is unknown.
func TestAMessageWhoseNodeDied(t *testing.T) {
	t.Parallel()
	args := []string{"-store", startRedis(t).url(), "-spread", "500ms"}
	a, b := start(t, args...), start(t, args...)
	cs := connect(t, balance(t, a, b).listener.Addr().String(), 1, 10)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sent := make(chan error, 1)
	go func() {
		_, err := cs.all[0].c.Send(ctx, json.RawMessage(`{"echo":1,"delayMs":10000}`))
		sent <- err
	}()
	effects := func(p *process) (n int) {
		var report struct{ Effects map[string]int }
		if err := p.request(ctx, http.MethodGet, "/faults/report", &report); err != nil {
			t.Error(err)
		}
		for _, times := range report.Effects {
			n += times
		}
		return n
	}
	eventually(t, "the message is being handled", func() bool { return effects(a)+effects(b) == 1 })
	dies, stays := a, b
	if effects(b) == 1 {
		dies, stays = b, a
	}
	dies.kill()
	err := <-sent
	if e, ok := errors.AsType[*reconnect.SendError](err); !ok || e.Outcome != reconnect.Unknown || e.Code != wire.NackUnknown {
		t.Errorf("the message ended with %v, want its outcome unknown", err)
	}
	if n := effects(stays); n != 0 {
		t.Errorf("the other node handled the message %d times", n)
	}
	// What is sent next is as ever.
	if result, err := cs.all[0].c.Send(ctx, json.RawMessage(`{"echo":2}`)); err != nil || string(result) != "2" {
		t.Errorf("the next message: %s, %v", result, err)
	}
}
