package hub_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	t.live = false // it is told of the new hub before anything else happens in its page
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
			if effects > 1 || m.outcome == "accepted" && effects != 1 || m.outcome == "not-sent" && effects != 0 || m.outcome == "" && t.alive && !m.withdrawn {
				w.fail("quiet, but message %s is %q, with %d effects", m.id, m.outcome, effects)
			}
		}
		w.checkOrder(t)
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

// checkOrder looks at the order in which what a tab sent took effect. A message whose
// outcome nobody knows may do so whenever a copy arrives.
func (w *world) checkOrder(t *page) {
	last := 0
	for _, id := range w.server.order {
		i := slices.IndexFunc(t.sent, func(m *letter) bool { return m.id == id && m.outcome == "accepted" })
		if i >= 0 && i < last {
			w.fail("message %s took effect after %s", id, t.sent[last].id)
		}
		last = max(last, i)
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
