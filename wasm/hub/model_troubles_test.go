package hub_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/longwire/longwire/wire"
)

// chance adds to what may happen, if it has not happened that often.
func (w *world) chance(m []func(), what string, most int, fn func()) []func() {
	if w.did[what] >= most {
		return m
	}
	return append(m, func() {
		w.did[what]++
		w.note("--- %s", what)
		fn()
	})
}

// troubles are what may go wrong next, or change.
func (w *world) troubles() []func() {
	m := []func(){w.pass}
	for range 3 {
		m = w.chance(m, "publish", 14, w.server.publish)
	}
	switch w.focus {
	case "naps": // long ones, while the streams change
		for range 6 {
			m = append(m, w.pass)
		}
		m = w.chance(m, "renumber", 4, func() { w.server.renumber(w.names[0]) })
		return w.naps(m, 6)
	case "ghosts":
		for range 3 {
			m = w.chance(m, "send", 12, w.send)
			m = w.chance(m, "ghost", 4, w.ghost)
		}
	case "sends":
		for range 3 {
			m = w.chance(m, "send", 20, w.send)
			m = w.chance(m, "cancel", 6, w.cancel)
			m = w.chance(m, "ghost", 2, w.ghost)
		}
		if w.holder != nil {
			m = w.chance(m, "steal", 6, w.steal)
		}
		for range w.reposted() {
			m = w.chance(m, "restart", 8, w.server.restart)
		}
	}
	m = w.chance(m, "send", 6, w.send)
	m = w.chance(m, "cancel", 1, w.cancel)
	m = w.chance(m, "restart", 2, w.server.restart)
	if w.names[0] != "" {
		m = w.chance(m, "renumber", 1, func() { w.server.renumber(w.names[0]) })
	}
	if len(w.conns) > 0 {
		m = w.chance(m, "cut", 2, func() { w.conns[w.r.IntN(len(w.conns))].close(wire.CloseAbnormal, "") })
		m = w.chance(m, "drain", 1, w.drain)
	}
	m = w.chance(m, "lose", 1, w.lose)
	m = w.chance(m, "ghost", 1, w.ghost)
	if w.holder != nil {
		m = w.chance(m, "crash", 2, w.crash)
		m = w.chance(m, "hand over", 1, func() {
			d := w.holder
			d.do(d.h.HandOver(d.now()))
			w.elect()
		})
		m = w.chance(m, "steal", 1, w.steal)
	}
	for _, z := range w.zombies {
		m = append(m, func() { z.do(z.h.Resign(z.now())) })
	}
	return w.naps(m, 3)
}

// reposted counts messages that took effect at the server and are on their way to
// another hub.
func (w *world) reposted() (n int) {
	for _, t := range w.pages {
		for _, m := range t.sent {
			if t.alive && m.outcome == "" && w.server.effects[m.id] > 0 && len(t.outbox) > 0 {
				n += 10
			}
		}
	}
	return n
}

// naps are tabs that open, sleep and wake.
func (w *world) naps(m []func(), most int) []func() {
	if w.alive() < 3 {
		m = w.chance(m, "open", most, w.open)
	}
	for _, t := range w.pages {
		switch {
		case !t.alive || t.driver != nil:
		case t.awake:
			m = w.chance(m, "sleep", most, func() { t.sleep() })
		default:
			m = append(m, t.wake)
		}
	}
	return m
}

func (w *world) alive() (n int) {
	for _, t := range w.pages {
		if t.alive {
			n++
		}
	}
	return n
}

func (w *world) open() {
	w.born++
	t := newPage(w, w.born)
	w.pages = append(w.pages, t)
	if w.holder == nil && w.born > 2 {
		w.elect()
		return
	}
	t.here(true)
}

func (w *world) send() {
	t := w.pages[w.r.IntN(len(w.pages))]
	if t.alive && t.awake {
		w.messages++
		t.sent = append(t.sent, &letter{id: fmt.Sprint(t.id, "-", w.messages)})
		t.flush()
	}
}

// cancel withdraws a message that some hub has.
func (w *world) cancel() {
	t := w.pages[w.r.IntN(len(w.pages))]
	i := slices.IndexFunc(t.sent, func(m *letter) bool { return m.posted && m.outcome == "" && !m.withdrawn })
	if t.alive && t.awake && i >= 0 {
		t.sent[i].withdrawn = true
		t.post(wire.Cancel{ID: t.sent[i].id})
	}
}

func (w *world) drain() {
	if c := w.conns[w.r.IntN(len(w.conns))]; c.session != nil && !c.drained && len(c.out) == 0 {
		c.drained = true
		c.send(wire.Drain{Within: 1})
	}
}

// lose loses an event on the channel.
func (w *world) lose() {
	for _, t := range w.pages {
		for i, text := range t.inbox {
			if strings.Contains(text, `"t":"event`) && t.awake {
				t.inbox = slices.Delete(t.inbox, i, i+1)
				return
			}
		}
	}
	w.did["lose"]--
}

// ghost is a hub that was deposed, takes itself for the hub once more, and is gone.
func (w *world) ghost() {
	top := uint64(0)
	for _, t := range w.pages {
		top = max(top, t.known)
	}
	text := wire.Envelope{Gen: top + 1, Hub: "zz", Frame: wire.HubState{State: "live", Resume: true}.Append(nil)}.Append(nil)
	w.broadcast(&page{id: "a ghost"}, text)
}

// crash ends the tab of the hub, and the hub with it.
func (w *world) crash() {
	d := w.holder
	d.page.alive = false
	d.detach()
	w.elect()
}

// steal deposes the hub, which is not told yet.
func (w *world) steal() {
	old := w.holder
	w.elect()
	if w.holder == nil {
		w.holder = old
		return
	}
	w.zombies = append(w.zombies, old)
}

func (t *page) sleep() {
	t.awake = false
	if t.w.r.IntN(2) == 0 {
		t.w.note("%s goes to the cache", t.id)
		t.post(wire.Bye{})
		for _, out := range t.outbox {
			out(t.w)
		}
		t.outbox, t.inbox = nil, nil
		t.forgetHub()
		return
	}
	t.w.note("%s freezes", t.id)
}

func (t *page) wake() {
	t.w.note("%s wakes", t.id)
	t.awake = true
	if t.w.holder == nil {
		t.w.elect()
	}
	if t.hub == "" && t.driver == nil {
		t.here(true)
	}
}
