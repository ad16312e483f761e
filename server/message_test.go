package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

func echo(_ context.Context, m server.Message) (json.RawMessage, error) { return m.Body, nil }

func ack(id, result string) wire.Frame {
	if result == "" {
		return wire.Ack{ID: id}
	}
	return wire.Ack{ID: id, Result: wire.Raw(result)}
}

// handler runs messages whose body is an instruction, and counts.
type handler struct {
	ran     atomic.Int32
	release chan struct{} // what "wait" waits for
	refuse  atomic.Bool   // what "moody" looks at
}

func (h *handler) handle(ctx context.Context, m server.Message) (json.RawMessage, error) {
	n := h.ran.Add(1)
	var do string
	if err := json.Unmarshal(m.Body, &do); err != nil {
		return nil, err
	}
	switch do {
	case "wait":
		select {
		case <-h.release:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case "moody":
		if h.refuse.Load() {
			return nil, &server.Refusal{Code: "moody", Reason: "not now", Retry: 250 * time.Millisecond}
		}
	case "refuse":
		return nil, fmt.Errorf("wrapped: %w", &server.Refusal{Code: "no", Reason: "never"})
	case "refuse plainly":
		return nil, &server.Refusal{}
	case "refuse at length":
		return nil, &server.Refusal{Code: strings.Repeat("é", 100), Reason: strings.Repeat("é", 1000)}
	case "fail":
		return nil, errors.New("secret of the database")
	case "panic":
		panic("in the handler")
	case "bad result":
		return json.RawMessage(`{`), nil
	case "no result":
		return nil, nil
	}
	return fmt.Appendf(nil, "%d", n), nil
}

func inMessageWorld(t *testing.T, o server.Options, f func(t *testing.T, w *world, h *handler)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		h := &handler{release: make(chan struct{})}
		o.OnMessage = h.handle
		f(t, newWorld(t, o), h)
	})
}

func (c *client) msg(id, do string) {
	c.t.Helper()
	c.send(`{"t":"msg","id":%q,"body":%q}`, id, do)
}

func TestAnswersToMessages(t *testing.T) {
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann")
		for i, tt := range []struct {
			do   string
			want wire.Frame
		}{
			{"count", ack("0", "1")},
			{"no result", ack("1", "")},
			{"bad result", ack("2", "")},
			{"refuse", wire.Nack{ID: "3", Code: "no", Reason: "never"}},
			{"refuse plainly", wire.Nack{ID: "4", Code: "failed"}},
			{"refuse at length", wire.Nack{ID: "5", Code: strings.Repeat("é", 61), Reason: strings.Repeat("é", 512)}},
			{"fail", wire.Nack{ID: "6", Code: "failed", Reason: "the handler failed"}},
			{"panic", wire.Nack{ID: "7", Code: "unknown", Reason: "the handler did not finish"}},
		} {
			c.msg(fmt.Sprint(i), tt.do)
			c.expect(tt.want)
			c.msg(fmt.Sprint(i), tt.do)
			c.expect(tt.want) // from memory
		}
		want(t, "runs", int(h.ran.Load()), 8)
		c.msg("0", "other body")
		c.expect(wire.Nack{ID: "0", Code: "conflict", Reason: "the id was used with another body"})
	})
}

func TestServerWithoutAHandlerRefuses(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.join("ann")
		c.msg("1", "x")
		c.expect(wire.Nack{ID: "1", Code: "failed", Reason: "this server takes no messages"})
	})
}

func TestPingIsAnsweredWhileAHandlerRuns(t *testing.T) {
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann")
		c.msg("1", "wait")
		c.msg("2", "count")
		c.send(`{"t":"ping","n":1}`)
		c.expect(wire.Pong{N: 1})
		c.silent()
		want(t, "runs", h.ran.Load(), 1)
		close(h.release)
		c.expect(ack("1", "1"), ack("2", "2"))
	})
}

func TestResendMeetsItsFirstCopyRunning(t *testing.T) {
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann", `"gen":1`)
		c.msg("1", "wait")
		c.msg("2", "count")
		synctest.Wait()
		w.net.Cut()
		time.Sleep(2 * time.Second)
		again := w.join("ann", fmt.Sprintf(`"gen":2,"session":%q`, c.welcome.Session))
		other := w.join("ann") // another session of the same user
		for _, c := range []*client{again, other} {
			c.msg("1", "wait")
			c.msg("2", "count")
			c.silent()
		}
		close(h.release)
		again.expect(ack("1", "1"), ack("2", "2"))
		other.expect(ack("1", "1"), ack("2", "2"))
		want(t, "runs", h.ran.Load(), 2)
	})
}

func TestAckIsLostAndTheActionNotDoneTwice(t *testing.T) {
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann")
		c.link.Mute(true, false) // acks do not arrive
		c.msg("1", "count")
		synctest.Wait()
		c.link.Cut()
		again := w.join("ann", fmt.Sprintf(`"gen":%d,"session":%q`, c.welcome.Gen+1, c.welcome.Session))
		want(t, "dedupe id", again.welcome.DedupeID, c.welcome.DedupeID)
		again.msg("1", "count")
		again.expect(ack("1", "1"))
		want(t, "runs", h.ran.Load(), 1)

		bob := w.join("bob") // another user's id is another message
		bob.msg("1", "count")
		bob.expect(ack("1", "2"))
	})
}

func TestMessagesSentBeforeLeavingAreRun(t *testing.T) {
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann")
		c.msg("1", "wait")
		c.msg("2", "count")
		_ = c.ws.Close(wire.CloseLeaving, "")
		close(h.release)
		synctest.Wait()
		want(t, "runs", h.ran.Load(), 2)
	})
}

// Close ends what runs, and what was behind it is for the next server.
func TestCloseBeginsNoMessage(t *testing.T) {
	const clients = 300
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		for i := range clients {
			c := w.join(fmt.Sprint("user", i))
			c.msg("1", "wait")
			c.msg("2", "count")
		}
		synctest.Wait()
		if err := w.srv.Close(); err != nil {
			t.Error(err)
		}
		want(t, "runs", h.ran.Load(), clients)
	})
}

func TestSupersededConnectionBeginsNoMessage(t *testing.T) {
	for name, lost := range map[string]bool{"still open": false, "lost before": true} {
		t.Run(name, func(t *testing.T) {
			inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
				c := w.join("ann", `"gen":1`)
				c.msg("1", "wait")
				c.msg("2", "count")
				synctest.Wait()
				if lost {
					c.link.Cut()
					synctest.Wait()
				}
				again := w.join("ann", fmt.Sprintf(`"gen":2,"session":%q`, c.welcome.Session))
				close(h.release)
				synctest.Wait()
				want(t, "runs", h.ran.Load(), 1)
				again.msg("2", "count")
				again.expect(ack("2", "2"))
			})
		})
	}
}

func TestRefusedForNowKeepsTheOrder(t *testing.T) {
	inMessageWorld(t, server.Options{}, func(t *testing.T, w *world, h *handler) {
		h.refuse.Store(true)
		c := w.join("ann")
		c.msg("1", "moody")
		c.msg("2", "count")
		c.expect(
			wire.Nack{ID: "1", Code: "moody", Reason: "not now", HasRetry: true, Retry: 250},
			wire.Nack{ID: "2", Code: "busy", Reason: "after message 1", HasRetry: true, Retry: 250})
		c.msg("2", "count") // too early
		c.expect(wire.Nack{ID: "2", Code: "busy", Reason: "after message 1", HasRetry: true, Retry: 250})
		h.refuse.Store(false)
		c.msg("1", "moody")
		c.msg("2", "count")
		c.expect(ack("1", "2"), ack("2", "3"))

		// A message that never returns does not hold the others for ever.
		h.refuse.Store(true)
		c.msg("3", "moody")
		c.expect(wire.Nack{ID: "3", Code: "moody", Reason: "not now", HasRetry: true, Retry: 250})
		time.Sleep(6 * time.Minute)
		c.msg("4", "count")
		c.expect(ack("4", "5"))
	})
}

func TestMemoryOfIDs(t *testing.T) {
	inMessageWorld(t, server.Options{DedupeWindow: time.Minute, DedupeLimit: 2}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann")
		c.msg("1", "count")
		c.expect(ack("1", "1"))
		time.Sleep(40 * time.Second)
		c.msg("2", "count")
		c.expect(ack("2", "2"))
		c.msg("3", "count")
		c.expect(wire.Nack{ID: "3", Code: "busy", Reason: "too many messages to remember", HasRetry: true, Retry: 20_000})
		bob := w.join("bob")
		bob.msg("3", "count")
		bob.expect(ack("3", "3"))
		time.Sleep(20 * time.Second)
		c.msg("3", "count")
		c.expect(ack("3", "4"))
		c.msg("2", "count")
		c.expect(ack("2", "2"))
		w.net.Cut()
		time.Sleep(time.Hour)
		want(t, "what is left", w.srv.Stats().Sessions, 0)
	})
}

func TestWindowThatIsOverrunStopsTheReader(t *testing.T) {
	inMessageWorld(t, server.Options{Window: 4}, func(t *testing.T, w *world, h *handler) {
		c := w.join("ann")
		for i := range 20 {
			c.msg(fmt.Sprint(i), "wait")
		}
		c.send(`{"t":"ping","n":1}`)
		time.Sleep(10 * time.Minute) // being slow is no reason to drop the peer
		c.silent()
		want(t, "running", h.ran.Load(), 1)
		close(h.release)
		seen := map[string]int{}
		for range 21 {
			seen[c.next().Type()]++
		}
		want(t, "frames", seen, map[string]int{"ack": 20, "pong": 1})
	})
}
