package hub

import (
	"slices"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// tab is a tab that counts.
type tab struct {
	id      string
	visible bool
	gen     uint64 // the highest of a hub under which one of its positions moved
	session string // that its position on the own stream is of
	user    string
	resumed bool // it has answered the last announcement
	heard   bool // since the last beat
	missed  int  // beats in a row

	// seen is how much of Hub.sent the tab had got when it last answered a beat, beats
	// how much had been posted at those it has not answered.
	seen  uint64
	beats []uint64
}

const (
	beatEvery = 5 * time.Second
	maxMissed = 3 // beats in a row without a word: the tab no longer counts
	// beatBytes on the channel ask for a beat before its time.
	beatBytes = 2 << 20
	// maxBehind is how far a tab may be behind: a channel keeps for it whatever it has
	// not taken.
	maxBehind = 8 << 20
)

// find returns the tab of that name, nil for none that counts.
func (h *Hub) find(id string) *tab {
	i := slices.IndexFunc(h.tabs, func(t *tab) bool { return t.id == id })
	if i < 0 {
		return nil
	}
	return h.tabs[i]
}

// join counts a tab from now on.
func (h *Hub) join(id string) *tab {
	t := &tab{id: id, seen: h.sent}
	if !h.shared() && h.first > 0 {
		h.beat.set(h.now, beatEvery)
		h.posted = nil
	}
	h.tabs = append(h.tabs, t)
	h.renew()
	h.counted()
	h.tell(reconnect.Signal{Kind: reconnect.Wanted})
	return t
}

// leave counts a tab no more. Its messages stay: they may have been written.
func (h *Hub) leave(t *tab) {
	h.tabs = slices.DeleteFunc(h.tabs, func(other *tab) bool { return other == t })
	if !h.shared() {
		h.beat.clear()
	}
	for _, name := range h.names() {
		h.unwant(t, name)
	}
	h.counted()
	h.answered()
	h.urlGone(t)
}

// counted says how many tabs there are now. The welcome of a connection that is
// being made says it too.
func (h *Hub) counted() {
	if h.started && !h.answering.on {
		h.report(h.m.Status())
	}
}

// renew announces the hub under a new number if a tab has fallen silent. That one may
// wake and believe in the number before, without having heard of a new epoch. What
// comes of the streams is posted in another room from then on, so that no more piles
// up at that tab.
func (h *Hub) renew() {
	if h.distrust && h.shared() && h.started && h.without&ruleLease == 0 {
		h.distrust = false
		h.room++
		h.tell(reconnect.Outrank{Above: h.gen})
		h.reannounce()
	}
}

// sendBeat posts where the hub stands, and counts out who has been silent.
func (h *Hub) sendBeat() {
	for _, t := range slices.Clone(h.tabs[1:]) {
		if t.missed++; t.heard {
			t.missed = 0
		}
		if t.missed >= maxMissed || h.sent-t.seen > maxBehind {
			h.leave(t)
			h.distrust = true
		}
		t.heard = false
		t.beats = append(t.beats, h.sent)
	}
	h.atBeat = h.sent
	if !h.shared() {
		return
	}
	h.renew()
	h.beat.set(h.now, beatEvery)
	f := h.state(h.m.Status())
	f.Quiet = h.quiet()
	if len(f.Quiet) > 0 {
		h.tellState(f) // it may stand higher than where the server fell behind, and skipped
	}
	f.Beat = true
	h.postText(h.write(f))
}

// fromOwn takes a frame of the own tab.
func (h *Hub) fromOwn(text []byte) {
	f, err := wire.DecodeFromTab(text)
	if err != nil {
		h.tellFrame(wire.Problem{Text: "bad frame from the tab: " + err.Error()})
		return
	}
	switch f := f.(type) {
	case wire.Rejoin:
		h.resume(h.own, f.Standing)
	case wire.Here:
		h.own.visible = f.Visible
		if !h.started {
			h.heir(f.Standing)
			h.place(h.own, f.Standing)
		}
		if !h.heard(f.Known, f.Hub) && f.Ask && h.started {
			h.tellState(h.state(h.m.Status()))
		}
	case wire.Stop:
		h.tell(reconnect.Stop{})
	case wire.Take, wire.Bye:
	default:
		h.frame(h.own, f)
	}
}

// fromChannel takes what another tab, or another hub, has posted.
func (h *Hub) fromChannel(text []byte) {
	e, err := wire.DecodeEnvelope(text)
	switch {
	case err != nil:
		h.tellFrame(wire.Problem{Text: "bad message on the channel: " + err.Error()})
		return
	case e.Hub == h.id || e.Tab == h.own.id:
		return
	case e.Hub != "":
		h.heard(e.Gen, e.Hub)
		return
	}
	f, err := wire.DecodeFromTab(e.Frame)
	if err != nil {
		h.tellFrame(wire.Problem{Text: "bad frame from another tab: " + err.Error()})
		return
	}
	h.fromTab(e, f)
}

// fromTab takes a frame of another tab.
func (h *Hub) fromTab(e wire.Envelope, f wire.Frame) {
	t := h.find(e.Tab)
	switch f.(type) {
	case wire.Bye, wire.Stop:
		if t != nil {
			h.leave(t)
		}
		for id, sender := range h.senders {
			if sender == e.Tab {
				h.senders[id] = "" // nobody waits for it
			}
		}
		return
	case wire.Unknown: // a tab that is about to be a hub
		return
	}
	known := t != nil
	if !known {
		t = h.join(e.Tab)
	}
	t.heard = true
	if h.heard(e.Gen, "") {
		return
	}
	mine := e.To == h.id
	current := e.Gen == h.gen && (mine || e.To == "")
	switch f := f.(type) {
	case wire.Here:
		h.here(t, f, known, current)
	case wire.Rejoin:
		if current {
			h.resume(t, f.Standing)
		}
	case wire.Sub, wire.Unsub:
		if current && known {
			h.frame(t, f)
		}
	default:
		// Also under an earlier number of this hub: the tab has not heard yet.
		if h.first > 0 && (mine || e.To == "" && e.Gen >= h.first) {
			h.frame(t, f)
		}
	}
	if _, asks := f.(wire.Here); !known && !asks && !t.resumed && !h.gone {
		h.callUp(t)
	}
}

// here takes the answer to a beat, or the question whether there is a hub.
func (h *Hub) here(t *tab, f wire.Here, known, current bool) {
	t.visible = f.Visible
	if len(t.beats) > 0 && !f.Ask {
		t.seen, t.beats = t.beats[0], t.beats[1:]
	}
	if h.heard(f.Known, f.Hub) {
		return
	}
	h.heir(f.Standing)
	switch {
	case !known && current:
		h.resume(t, f.Standing)
	case !known || f.Ask && !current:
		h.callUp(t)
		return
	}
	if f.Ask && h.started {
		h.send(t, h.state(h.m.Status()))
	}
}

// callUp announces the hub to one tab, which will resume.
func (h *Hub) callUp(t *tab) {
	if !h.started {
		return
	}
	t.resumed = false
	f := h.state(h.m.Status())
	f.Resume = true
	h.send(t, f)
}

// frame takes a frame that means the same from any tab.
func (h *Hub) frame(t *tab, f wire.Frame) {
	switch f := f.(type) {
	case wire.Sub:
		h.want(t, f.Stream, f.Want)
	case wire.Unsub:
		h.unwant(t, f.Stream)
	case wire.Msg:
		h.message(t, f)
	case wire.Cancel:
		h.tell(reconnect.Cancel{ID: f.ID})
	case wire.Have:
		h.have(t, f)
	case wire.Kick:
		h.kick(t, f.Why)
	case wire.Start:
		h.start()
	case wire.Reauthorize:
		h.tell(reconnect.Reauthorize{})
	case wire.Take:
		if !h.own.visible {
			h.handOver()
			h.tellFrame(wire.Yield{})
		}
	default:
		h.tellFrame(wire.Problem{Text: f.Type() + " is no frame of tabs"})
	}
}

func (h *Hub) kick(t *tab, why string) {
	switch why {
	case "online":
		h.tell(reconnect.Signal{Kind: reconnect.Online})
	case "offline":
		h.tell(reconnect.Signal{Kind: reconnect.Offline})
	case "visible":
		t.visible = true
		h.tell(reconnect.Signal{Kind: reconnect.Visible})
	case "user":
		h.tell(reconnect.Signal{Kind: reconnect.Wanted})
	case "now":
		h.tell(reconnect.DialNow{})
	default:
		h.tellFrame(wire.Problem{Text: "kick: there is no \"" + why + "\""})
	}
}

// message takes a message for the server. One that is on its way already came from
// a tab that could not know.
func (h *Hub) message(t *tab, f wire.Msg) {
	_, again := h.senders[f.ID]
	h.senders[f.ID] = t.id
	if !again {
		h.tell(reconnect.Send{
			ID: f.ID, Body: f.Body, Expiry: milliseconds(f.Expiry), Dedupe: f.Dedupe, Age: milliseconds(f.Age),
		})
	}
}

// milliseconds is what a tab says in ms, a year at most.
func milliseconds(ms int64) time.Duration {
	const year = 365 * 24 * time.Hour
	return time.Duration(min(ms, year.Milliseconds())) * time.Millisecond
}

// settle tells the tab of a message what became of it.
func (h *Hub) settle(a reconnect.Settle) {
	id, known := h.senders[a.ID]
	delete(h.senders, a.ID)
	if id == "" && h.own.id != "" || !known {
		return
	}
	t := h.find(id)
	if t == nil {
		t = &tab{id: id} // one that fell silent may wake, and finds this
	}
	if a.Outcome == reconnect.Accepted {
		h.send(t, wire.Ack{ID: a.ID, Result: a.Result})
		return
	}
	f := wire.Nack{ID: a.ID, Code: a.Code, Reason: a.Reason}
	if a.Outcome != reconnect.Refused {
		f.Outcome = a.Outcome.String()
	}
	h.send(t, f)
}
