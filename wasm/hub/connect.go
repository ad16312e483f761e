package hub

import (
	"maps"
	"slices"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// answerWait is how long the tabs have to say where they stand. The URL is fetched
// and the socket opened meanwhile.
const answerWait = 100 * time.Millisecond

// start takes office, or starts an ended client afresh.
func (h *Hub) start() {
	first := !h.started
	h.started = true
	h.tell(reconnect.Start{})
	if first && h.gen == 0 { // it waits: tabs want to know of the hub all the same
		h.tell(reconnect.Outrank{Above: h.m.Gen()})
		h.announce()
	}
}

// attempt announces a connection that is being made.
func (h *Hub) attempt() {
	h.live, h.opened, h.resumed = false, 0, false
	clear(h.asked)
	h.unknow()
	h.announce()
	h.answering.set(h.now, answerWait)
	h.answered()
}

// announce tells all tabs that this is the hub, under the number that the machine
// has chosen. What they asked for before is forgotten: they ask anew.
func (h *Hub) announce() {
	office := h.first == 0
	h.rank()
	for _, s := range h.streams {
		s.asks = nil
	}
	for _, t := range h.tabs {
		t.resumed = false
	}
	f := h.state(h.m.Status())
	f.Resume, f.Beat = true, office && h.id != ""
	h.tellState(f)
	if h.id != "" && (office || h.shared()) {
		h.postText(h.write(f))
		h.beat.set(h.now, beatEvery)
	}
	if !h.shared() {
		h.beat.clear()
	}
	h.posted = nil
}

// resume takes what a tab says to an announcement.
func (h *Hub) resume(t *tab, s wire.Standing) {
	t.resumed = true
	h.heir(s)
	if h.live {
		h.greet(t, nil) // the answers come one by one
	}
	h.place(t, s)
	h.answered()
}

// heir takes over, before the first connection, what a tab knows of the hub before.
func (h *Hub) heir(s wire.Standing) {
	if h.inherits && (s.Attempt > 0 || s.NotBefore > 0 || s.Live) {
		ev := reconnect.Inherit{Attempt: int(min(s.Attempt, 1<<30)), Live: s.Live}
		if s.NotBefore > 0 {
			ev.NotBefore = time.UnixMilli(s.NotBefore)
		}
		h.tell(ev)
	}
}

// answered ends the wait for the tabs when all have answered.
func (h *Hub) answered() {
	if !h.answering.on || h.others < 0 || len(h.tabs)-1 < h.others {
		return
	}
	for _, t := range h.tabs {
		if !t.resumed {
			return
		}
	}
	h.stopWaiting()
}

// stopWaiting goes on with what the tabs have said until now.
func (h *Hub) stopWaiting() {
	h.answering.clear()
	h.others, h.inherits = 0, false
	h.useOpened()
}

// useOpened has the machine resume on the open socket, from where the tabs stand.
func (h *Hub) useOpened() {
	if h.answering.on || h.opened == 0 {
		return
	}
	conn := h.opened
	h.opened, h.resumed = 0, true
	h.offered = h.m.Status().Session
	if h.offered == "" {
		if t := h.latest(func(t *tab) bool { return t.session != "" }); t != nil {
			h.offered = t.session
			h.tell(reconnect.Inherit{Session: t.session, User: t.user, Live: true})
		}
	}
	streams := make(map[string]wire.Want, len(h.streams))
	for name, s := range h.streams {
		if first := h.gather(name, s); first != nil {
			first.sent = true
			streams[name] = first.from
			h.asked[name] = true
		}
	}
	h.tell(reconnect.Positions{Streams: streams})
	h.tell(reconnect.Opened{Conn: conn})
}

// latest returns the tab that was served last, among those that pass.
func (h *Hub) latest(pass func(*tab) bool) (latest *tab) {
	for _, t := range h.tabs {
		if pass(t) && (latest == nil || t.gen > latest.gen) {
			latest = t
		}
	}
	return latest
}

// gather joins the asks of a stream that one resume can answer: those of the epoch
// that the tab knows which was served last, from the lowest position; or, when
// nobody has a position, those without one.
func (h *Hub) gather(name string, s *stream) *ask {
	fits := func(by asker) bool {
		return by.at.Has && (name != "" || by.t.session == "" || by.t.session == h.offered)
	}
	epoch, gen, found := "", uint64(0), false
	none := true
	for _, a := range s.asks {
		for _, by := range a.by {
			none = none && !by.at.Has
			if fits(by) && (!found || by.t.gen > gen) {
				epoch, gen, found = by.at.Epoch, by.t.gen, true
			}
		}
	}
	if !found && !none {
		return nil // positions of other sessions: each is asked for
	}
	joined := &ask{}
	s.asks = slices.DeleteFunc(s.asks, func(a *ask) bool {
		if found && (a.from.Epoch != epoch || !fits(a.by[0])) {
			return false
		}
		if len(joined.by) == 0 || a.from.After < joined.from.After {
			joined.from = a.from
		}
		joined.by = append(joined.by, a.by...)
		return true
	})
	if len(joined.by) == 0 {
		return nil
	}
	s.asks = append(s.asks, joined)
	return joined
}

// welcome confirms a connection: each tab learns of the session and gets the
// answers that are for it. For the rest the server is asked now.
func (h *Hub) welcome(w wire.Welcome) {
	bridge := h.live
	h.live, h.base, h.greeting = true, w.V == 0, w
	h.inherits = false
	h.answering.clear()
	if bridge {
		// What it was asked for is where the old connection stood. Nobody else does:
		// the tabs resume, and are answered one by one.
		h.unknow()
		h.announce()
		return
	}
	answers := make(map[*tab]map[string]wire.Answer)
	for name, s := range h.streams {
		s.asks = h.answer(name, s, w, answers)
	}
	for _, t := range h.tabs {
		h.greet(t, answers[t])
	}
	for _, name := range h.names() {
		for _, a := range h.streams[name].asks {
			h.request(name, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(h.asked)) {
		if h.streams[name] == nil {
			h.drop(name)
		}
	}
}

// greet gives a tab the welcome of the connection, with the answers that are for it.
func (h *Hub) greet(t *tab, answers map[string]wire.Answer) {
	f := h.greeting
	f.Subs, f.Own = answers, wire.Answer{Error: wire.ErrBusy}
	if own, ok := answers[""]; ok {
		f.Own = own
		delete(answers, "")
	}
	h.send(t, f)
}

// answer puts what a welcome says of a stream where it belongs, and returns what is
// still to be asked for.
func (h *Hub) answer(name string, s *stream, w wire.Welcome, answers map[*tab]map[string]wire.Answer) []*ask {
	a, ok := w.Own, true
	if name != "" {
		a, ok = w.Subs[name]
	}
	if !ok {
		return s.asks
	}
	if a.Error == "" {
		s.know(a.Seq, a.Epoch)
	}
	var left []*ask
	for _, asked := range s.asks {
		switch {
		case !asked.sent || a.Error == wire.ErrBusy:
			left = append(left, asked)
		case name == "" && asked.from.Has && w.Session != h.offered && !h.base:
			// It was not asked for there: this is another session.
			for _, by := range asked.by {
				left = append(left, &ask{from: by.at, by: []asker{by}})
			}
		default:
			for _, by := range asked.by {
				if answers[by.t] == nil {
					answers[by.t] = make(map[string]wire.Answer)
				}
				answers[by.t][name] = a
			}
		}
	}
	return left
}
