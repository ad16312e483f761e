package hub_test

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
	"github.com/longwire/longwire/wire"
)

// world is a schedule of the model: the real hub on the real machine, with models of
// the server, the tabs, the channel and the lock.
type world struct {
	r       *rand.Rand
	names   []string // of the streams
	focus   string   // what goes wrong more often than the rest
	without map[string]bool
	rules   hub.Rule // left out of the hub
	now     time.Time

	server  *server
	conns   []*conn
	pages   []*page
	born    int
	hubs    int
	holder  *driver   // of the lock
	zombies []*driver // that were deposed and do not know yet

	did      map[string]int // of what happens only so often
	messages int
	failed   string
	trace    []string // if tracing
	tracing  bool
}

func newWorld(seed uint64, names []string, without map[string]bool, rules hub.Rule, tracing bool) *world {
	w := &world{
		r: rand.New(rand.NewPCG(seed, 7)), names: names, without: without, rules: rules, now: time.UnixMilli(1_000_000_000),
		did: make(map[string]int), tracing: tracing,
	}
	w.server = newServer(w)
	w.open()
	w.open()
	w.elect()
	return w
}

func (w *world) fail(format string, args ...any) {
	if w.failed == "" {
		w.failed = fmt.Sprintf(format, args...)
	}
}

func (w *world) log(name string) *log {
	if name != "" {
		return w.server.logs[name]
	}
	if w.holder == nil {
		return nil
	}
	for _, c := range w.conns {
		if c.driver == w.holder && !c.closed && c.session != nil {
			return w.server.own[c.session.id]
		}
	}
	return nil
}

func (w *world) note(format string, args ...any) {
	if w.tracing {
		w.trace = append(w.trace, fmt.Sprintf(format, args...))
	}
}

// broadcast gives a text to everybody on the channel but its sender.
func (w *world) broadcast(from *page, text []byte) {
	w.note("%s posts %s", from.id, text)
	for _, t := range w.pages {
		if t == from || !t.alive {
			continue
		}
		if t.driver != nil {
			t.driver.inbox = append(t.driver.inbox, string(text))
		} else if t.awake || t.frozen() {
			t.inbox = append(t.inbox, string(text))
		}
	}
}

// frozen reports whether a sleeping tab will get what is posted when it wakes.
func (t *page) frozen() bool { return t.hub != "" }

// driver is the model of what wasm/ is to a hub.
type driver struct {
	w      *world
	h      *hub.Hub
	id     string
	page   *page
	offset time.Duration // of this page's clock
	inbox  []string
	conns  map[uint64]*conn
	closes []reconnect.Closed
	kept   []string // frames whose payloads it keeps
}

func (d *driver) now() time.Time { return d.w.now.Add(d.offset) }

// elect gives the lock to a tab that is awake.
func (w *world) elect() {
	w.holder = nil
	awake := slices.DeleteFunc(slices.Clone(w.pages), func(t *page) bool { return !t.alive || !t.awake || t.driver != nil })
	if len(awake) == 0 {
		return
	}
	t := awake[w.r.IntN(len(awake))]
	w.hubs++
	d := &driver{w: w, page: t, id: fmt.Sprint("h", w.r.IntN(100), ".", w.hubs), conns: make(map[uint64]*conn)}
	if w.hubs > 1 && w.r.IntN(2) == 0 {
		d.offset = -time.Hour * time.Duration(1+w.hubs) // the clock was set back
	}
	others := []int{-1, 0, 1, 2}[w.r.IntN(4)]
	h, err := hub.New(reconnect.Policy{Base: time.Millisecond, Cap: 50 * time.Millisecond, Rand: w.r.Float64}, hub.Options{ID: d.id, Tab: t.id, Others: others})
	if err != nil {
		w.fail("%v", err)
		return
	}
	d.h = h
	h.Without(w.rules)
	w.holder, t.driver = d, d
	t.inbox = nil // the hub listens now
	w.note("%s is hub %s, clock %v", t.id, d.id, d.offset)
	t.here(false)
	t.post(wire.Start{})
}

// detach leaves a page without its hub.
func (d *driver) detach() {
	if d.page.driver == d {
		d.page.driver = nil
		d.page.outbox = nil
		d.page.forgetHub()
		if d.page.alive {
			d.page.here(true)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.conns)) {
		d.conns[id].close(wire.CloseAbnormal, "")
	}
	d.w.zombies = slices.DeleteFunc(d.w.zombies, func(z *driver) bool { return z == d })
}

// do does the actions of the hub.
func (d *driver) do(actions []hub.Action) {
	for len(actions) > 0 {
		a, n := actions[0], 1
		switch a.Kind {
		case hub.Tell:
			text := d.whole(a.Text)
			d.w.note("%s to its own tab: %s", d.id, text)
			f, err := wire.DecodeFromHub([]byte(text))
			if err != nil {
				d.w.fail("the own tab got %s: %v", text, err)
				return
			}
			if f, ok := f.(wire.Problem); ok && !strings.HasPrefix(f.Text, "no second connection") {
				d.w.fail("a problem: %s", f.Text)
			}
			if d.page.driver == d {
				d.page.take(f)
			}
		case hub.Post:
			var texts []string
			for _, next := range actions {
				if next.Kind != hub.Post || next.Room != a.Room || !bytes.Equal(next.Head, a.Head) {
					break
				}
				texts = append(texts, d.whole(next.Text))
			}
			text := texts[0]
			if n = len(texts); n > 1 {
				text = "[" + strings.Join(texts, ",") + "]"
			}
			d.w.broadcast(d.page, fmt.Appendf(nil, "%s%s}", a.Head, text))
		case hub.Ask:
			defer func() { d.do(d.h.Holds(d.now(), d.w.holder == d)) }()
		case hub.Do:
			d.act(a.Do)
		}
		actions = actions[n:]
	}
	if d.h.Gone() {
		d.detach()
	}
}

// received is a message as the hub gets it: of events it keeps the payloads every other
// time.
func (d *driver) received(conn uint64, text string) reconnect.Received {
	ev := reconnect.Received{Conn: conn, Data: []byte(text), Size: len(text)}
	frames, err := wire.Decode(ev.Data)
	if err != nil || len(frames) != 1 || d.w.r.IntN(2) == 0 {
		return ev
	}
	switch f := frames[0].(type) {
	case wire.Event:
		ev.Frame = wire.Events{Stream: f.Stream, From: f.Seq, Data: make([]wire.Raw, 1)}
	case wire.Events:
		ev.Frame = wire.Events{Stream: f.Stream, From: f.From, Data: make([]wire.Raw, len(f.Data))}
	default:
		return ev
	}
	ev.Data = strconv.AppendInt(nil, int64(len(d.kept)), 10)
	d.kept = append(d.kept, text)
	return ev
}

// whole is what a text of the hub stands for.
func (d *driver) whole(text []byte) string {
	if n, ok := wire.Raw(text).Uint(); ok {
		return d.kept[n]
	}
	return string(text)
}

func (d *driver) act(a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.Dial:
		c := &conn{s: d.w.server, id: a.Conn, driver: d, cursors: make(map[string]*cursor)}
		d.conns[a.Conn] = c
		d.w.conns = append(d.w.conns, c)
	case reconnect.Write:
		d.w.note("%s writes %s", d.id, a.Data)
		if c := d.conns[a.Conn]; c != nil {
			c.in = append(c.in, string(a.Data))
		}
	case reconnect.Abandon:
		if c := d.conns[a.Conn]; c != nil {
			delete(d.conns, a.Conn)
			c.close(a.Code, a.Reason)
		}
	}
}

// cut tells the hub, later, that a connection is gone.
func (d *driver) cut(c *conn, code int, reason string) {
	d.w.conns = slices.DeleteFunc(d.w.conns, func(other *conn) bool { return other == c })
	if d.conns[c.id] == c {
		delete(d.conns, c.id)
		d.closes = append(d.closes, reconnect.Closed{Conn: c.id, Code: code, Reason: reason})
	}
}

func (d *driver) event(ev reconnect.Event) { d.do(d.h.Event(d.now(), ev)) }

// moves are what may happen next at a hub.
func (d *driver) moves(m []func()) []func() {
	if len(d.inbox) > 0 {
		m = append(m, func() {
			text := d.inbox[0]
			d.inbox = d.inbox[1:]
			d.do(d.h.FromChannel(d.now(), []byte(text)))
		})
	}
	if len(d.closes) > 0 {
		m = append(m, func() {
			ev := d.closes[0]
			d.closes = d.closes[1:]
			d.event(ev)
		})
	}
	for _, id := range slices.Sorted(maps.Keys(d.conns)) {
		c := d.conns[id]
		if !c.opened {
			m = append(m, func() {
				c.opened = true
				d.event(reconnect.Opened{Conn: c.id})
			})
		} else if len(c.out) > 0 {
			m = append(m, func() {
				text := c.out[0]
				c.out = c.out[1:]
				d.w.note("%s reads %s", d.id, text)
				d.event(d.received(c.id, text))
			})
		}
	}
	return m
}

// moves are what may happen next without anything going wrong.
func (w *world) moves() []func() {
	var m []func()
	for _, t := range w.pages {
		if !t.alive {
			continue
		}
		if t.awake && len(t.inbox) > 0 {
			m = append(m, func() {
				text := t.inbox[0]
				t.inbox = t.inbox[1:]
				t.hear(text)
			})
		}
		if len(t.outbox) > 0 {
			m = append(m, func() {
				out := t.outbox[0]
				t.outbox = t.outbox[1:]
				out(w)
			})
		}
		if t.driver != nil {
			m = t.driver.moves(m)
		}
	}
	for _, c := range slices.Clone(w.conns) {
		m = c.moves(m)
	}
	return m
}

// pass lets the time go on to what the hub waits for.
func (w *world) pass() {
	if w.holder == nil {
		return
	}
	if left, ok := w.holder.h.Next(w.holder.now()); ok {
		w.now = w.now.Add(left)
		w.note("%v pass", left)
		w.holder.event(reconnect.Tick{})
	}
}

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

// run plays a schedule of steps, then lets everything come to rest.
func (w *world) run(steps int) {
	for range steps {
		m := w.moves()
		if w.r.IntN(4) == 0 || len(m) == 0 {
			m = w.troubles()
		}
		m[w.r.IntN(len(m))]()
		if w.failed != "" {
			return
		}
	}
	w.note("--- rest")
	for _, z := range slices.Clone(w.zombies) {
		z.do(z.h.Resign(z.now()))
	}
	for _, t := range w.pages {
		if t.alive && !t.awake {
			t.wake()
		}
	}
	if w.holder == nil {
		w.open()
		if w.holder == nil {
			w.elect()
		}
	}
	w.rest()
	if w.failed == "" {
		w.check()
	}
}

// rest plays on without troubles until nothing happens over some beats.
func (w *world) rest() {
	end := w.now.Add(40 * time.Second)
	for range 6000 {
		m := w.moves()
		switch {
		case len(m) > 0:
			m[w.r.IntN(len(m))]()
		case w.now.Before(end):
			w.pass()
		default:
			return
		}
		if w.failed != "" {
			return
		}
	}
	w.fail("it never comes to rest")
}

// check looks at what must be so when all is quiet.
func (w *world) check() {
	for _, t := range w.pages {
		for _, m := range t.sent {
			effects := w.server.effects[m.id]
			if effects > 1 || m.outcome == "accepted" && effects != 1 || m.outcome == "not-sent" && effects != 0 || m.outcome == "" && t.alive {
				w.fail("quiet, but message %s is %q, with %d effects", m.id, m.outcome, effects)
			}
		}
		if !t.alive {
			continue
		}
		for name, p := range t.places {
			l := w.log(name)
			if l == nil || p.mode != "following" || p.pos != (wire.Want{Has: true, Epoch: l.epoch, After: l.head}) {
				w.fail("quiet, but %s is %s at %+v of %q, and heeds %d %s; the log is at %+v", t.id, p.mode, p.pos, name, t.gen, t.hub, l)
			}
		}
	}
}

// play runs one schedule and returns what went wrong.
func play(tb testing.TB, seed uint64, without map[string]bool, rules hub.Rule, tracing bool) (string, []string) {
	tb.Helper()
	names := [][]string{{"a"}, {"a", ""}, {"a", "b"}}[seed%3]
	w := newWorld(seed, names, without, rules, tracing)
	w.focus = [...]string{"", "naps", "sends", "ghosts"}[seed/3%4]
	steps := 150
	if w.focus == "sends" {
		steps = 400
	}
	w.run(20 + w.r.IntN(steps))
	return w.failed, w.trace
}
