package server_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

func TestWelcomeEventsAndMessages(t *testing.T) {
	inWorld(t, server.Options{
		OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) { return m.Body, nil },
	}, func(t *testing.T, w *world) {
		c := w.dial("ann")
		welcome := c.resume(`"gen":7`, `"user":"ann"`, `"subs":{"chat":{}}`)
		chat := welcome.Subs["chat"]
		want(t, "welcome", welcome, wire.Welcome{
			V: 1, Session: welcome.Session, Gen: 7, User: "ann",
			Own:       wire.Answer{Epoch: welcome.Own.Epoch},
			Heartbeat: 15_000, MaxFrame: 65_536, Window: 32, Spread: 8_000,
			DedupeID: welcome.DedupeID, DedupeMs: 600_000,
			Subs: map[string]wire.Answer{"chat": {Epoch: chat.Epoch}},
		})
		if len(welcome.Session) < 22 || len(chat.Epoch) < 8 || chat.Epoch == welcome.Own.Epoch || welcome.DedupeID == "" {
			t.Errorf("session %q, epochs %q and %q, dedupe id %q", welcome.Session, welcome.Own.Epoch, chat.Epoch, welcome.DedupeID)
		}

		w.publish("chat", `{"n":1}`)
		c.expect(event("chat", 1, `{"n":1}`))
		if n, err := w.srv.PublishTo(t.Context(), "ann", []byte(`"private"`)); n != 1 || err != nil {
			t.Errorf("PublishTo = %d, %v; want 1, nil", n, err)
		}
		c.expect(event("", 1, `"private"`))
		c.send(`{"t":"msg","id":"m1","body":{"say":"hi"}}`)
		c.expect(wire.Ack{ID: "m1", Result: wire.Raw(`{"say":"hi"}`)})
		c.send(`{"t":"ping","n":3}`)
		c.expect(wire.Pong{N: 3})
	})
}
