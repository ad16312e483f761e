package main

import (
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// fromTab takes a frame of the tab. It only posts, and keeps the order.
func (h *hub) fromTab(text string) {
	f, err := wire.DecodeBus([]byte(text))
	if err != nil {
		h.post(func() { h.sendFrame(wire.Problem{Text: "bad frame from the tab: " + err.Error()}) })
		return
	}
	if ev := eventOf(f); ev != nil {
		h.tell(ev)
		return
	}
	h.post(func() { h.sendFrame(wire.Problem{Text: f.Type() + " is no frame of tabs"}) })
}

// eventOf says what a frame of a tab means to the machine, nil for nothing.
func eventOf(f wire.Frame) reconnect.Event {
	switch f := f.(type) {
	case wire.Resume:
		// The positions are the tab's. The session, the user and the fencing
		// number of the connection are the machine's.
		streams := make(map[string]wire.Want, len(f.Subs)+1)
		for name, want := range f.Subs {
			streams[name] = want
		}
		streams[""] = f.Own // always followed, on the wire too
		return reconnect.Positions{Streams: streams}
	case wire.Sub:
		return reconnect.Subscribe{Stream: f.Stream, From: f.Want}
	case wire.Unsub:
		return reconnect.Unsubscribe{Stream: f.Stream}
	case wire.Msg:
		return reconnect.Send{ID: f.ID, Body: f.Body, Expiry: time.Duration(f.Expiry) * time.Millisecond}
	case wire.Cancel:
		return reconnect.Cancel{ID: f.ID}
	case wire.Have:
		if f.Error != "" || f.URL == "" {
			return reconnect.URLFailed{Attempt: f.N, Err: f.Error}
		}
		return reconnect.URLReady{Attempt: f.N, URL: f.URL}
	case wire.Kick:
		switch f.Why {
		case "online":
			return reconnect.Signal{Kind: reconnect.Online}
		case "offline":
			return reconnect.Signal{Kind: reconnect.Offline}
		case "visible":
			return reconnect.Signal{Kind: reconnect.Visible}
		case "now":
			return reconnect.DialNow{}
		}
	case wire.Start:
		return reconnect.Start{}
	case wire.Stop:
		return reconnect.Stop{}
	case wire.Reauthorize:
		return reconnect.Reauthorize{}
	}
	return nil
}
