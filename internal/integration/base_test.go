package integration_test

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/reconnect"
)

// baseServer knows the base frames alone, and is written without any of our
// packages: resume, welcome, event, ack, snapshot, msg.
type baseServer struct {
	mu     sync.Mutex
	events []string // members of the event besides t and seq
	seen   []string // first frames of connections, as received
	ran    map[string]int
}

func (b *baseServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // a test
	ctx := r.Context()
	var resume struct {
		T       string  `json:"t"`
		Session string  `json:"session"`
		After   *uint64 `json:"after"`
	}
	_, text, err := ws.Read(ctx)
	if err != nil || json.Unmarshal(text, &resume) != nil || resume.T != "resume" {
		return
	}
	b.mu.Lock()
	b.seen = append(b.seen, resume.Session)
	next := uint64(len(b.events)) + 1
	resync := resume.Session == "base" && resume.After != nil && *resume.After+5 < next
	if resume.Session == "base" && resume.After != nil && !resync {
		next = *resume.After + 1
	}
	head := uint64(len(b.events))
	b.mu.Unlock()
	write := func(v map[string]any) bool {
		text, _ := json.Marshal(v)
		return ws.Write(ctx, websocket.MessageText, text) == nil
	}
	write(map[string]any{"t": "welcome", "session": "base", "seq": head, "resync": resync})
	if resync {
		write(map[string]any{"t": "snapshot", "state": "everything"})
	}
	go func() {
		for {
			b.mu.Lock()
			var event map[string]any
			if next <= uint64(len(b.events)) {
				_ = json.Unmarshal([]byte(b.events[next-1]), &event)
				event["t"], event["seq"] = "event", next
				next++
			}
			b.mu.Unlock()
			if event == nil {
				select {
				case <-ctx.Done():
					return
				case <-time.After(time.Second):
					continue
				}
			}
			if !write(event) {
				return
			}
		}
	}()
	for {
		_, text, err := ws.Read(ctx)
		if err != nil {
			return
		}
		var msg struct {
			T    string          `json:"t"`
			ID   string          `json:"id"`
			Body json.RawMessage `json:"body"`
		}
		if json.Unmarshal(text, &msg) != nil || msg.T != "msg" {
			return // it knows no other frame
		}
		b.mu.Lock()
		b.ran[msg.ID]++
		b.mu.Unlock()
		write(map[string]any{"t": "ack", "id": msg.ID})
	}
}

func (b *baseServer) publish(members ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, members...)
}

func TestAServerOfTheBaseFramesServesOurClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &baseServer{ran: make(map[string]int)}
		w := &world{t: t, net: memnet.Listen(), effects: make(map[string]int)}
		hs := &http.Server{Handler: b, ReadHeaderTimeout: 10 * time.Second}
		go hs.Serve(w.net.Listener()) //nolint:errcheck // ends with ErrServerClosed
		w.run(reconnect.Options{URL: func(context.Context) (string, error) { return "ws://server/", nil }})
		w.subscribe("", w.logging())
		w.live()
		b.publish(`{"price":1}`, `{"price":2}`)
		time.Sleep(5 * time.Second)
		want(t, w.taken(), `event 1 {"price":1}`, `event 2 {"price":2}`)
		if _, err := w.client.Send(t.Context(), json.RawMessage(`"hello"`)); err != nil {
			t.Error(err)
		}
		// Resumed after a loss, and after one too long with its snapshot.
		w.net.Cut()
		synctest.Wait()
		b.publish(`{"price":3}`)
		w.live()
		time.Sleep(5 * time.Second)
		want(t, w.taken(), "resumed missed=1", `event 3 {"price":3}`)
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		for range 9 {
			b.publish(`{"price":4}`)
		}
		w.net.Refuse(false)
		w.live()
		b.publish(`{"price":5}`)
		time.Sleep(5 * time.Second)
		want(t, w.taken(), "gap snapshot=true", `snapshot 12 "everything"`, `event 13 {"price":5}`)
		for id, n := range b.ran {
			if n != 1 {
				t.Errorf("message %s ran %d times", id, n)
			}
		}
		w.stop()
		_ = hs.Close()
		w.net.Cut()
		synctest.Wait()
	})
}
