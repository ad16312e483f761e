package hub_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/longwire/longwire/wire"
)

// page is the model of a tab: the rules that the shim follows.
type page struct {
	w     *world
	id    string
	alive bool
	awake bool
	seen  bool // by users

	driver *driver        // of the hub in this tab, nil for none
	inbox  []string       // from the channel
	outbox []func(*world) // to the channel or the own hub, in order

	// The hub it heeds.
	gen      uint64
	hub      string
	known    uint64 // the highest number it ever heard,
	knownHub string // and whose
	last     wire.HubState

	session, user string
	moved         uint64 // the number under which a position moved last
	places        map[string]*place

	sent     []*letter
	live     bool
	dedupe   string
	dedupeMs int64
}

// place is where a tab stands in a stream.
type place struct {
	pos   wire.Want
	asked wire.Want
	mode  string // asking, following, resyncing
}

// letter is a message, from send to its settlement.
type letter struct {
	id      string
	posted  bool
	hub     string // that it was last posted to
	dedupe  string
	first   time.Time
	outcome string
	// withdrawn: the hub was asked to give it up. Should its answer be lost, a tab
	// gives the message up by itself, as unknown.
	withdrawn bool
}

func newPage(w *world, n int) *page {
	t := &page{w: w, id: fmt.Sprint("t", n), alive: true, awake: true, seen: w.r.IntN(2) == 0, places: make(map[string]*place)}
	for _, name := range w.names {
		if w.r.IntN(4) > 0 {
			t.places[name] = &place{mode: "asking"}
		}
	}
	return t
}

func (t *page) standing() wire.Standing {
	s := wire.Standing{
		Gen: t.moved, Session: t.session, User: t.user, NotOwn: t.places[""] == nil, Subs: make(map[string]wire.Want),
		Attempt: t.last.Attempt, NotBefore: t.last.NotBefore, Live: t.last.State == "live",
	}
	for name, p := range t.places {
		if name == "" {
			s.Own = p.pos
		} else {
			s.Subs[name] = p.pos
		}
	}
	return s
}

// post sends a frame to the hub: its own one by a call, others over the channel.
func (t *page) post(f wire.Frame) {
	text := f.Append(nil)
	if t.driver != nil {
		d := t.driver
		t.outbox = append(t.outbox, func(*world) { d.do(d.h.FromOwn(d.now(), text)) })
		return
	}
	e := wire.Envelope{Gen: t.gen, Tab: t.id, To: t.hub, Frame: text}
	t.outbox = append(t.outbox, func(w *world) { w.broadcast(t, e.Append(nil)) })
}

func (t *page) here(ask bool) {
	t.post(wire.Here{Standing: t.standing(), Visible: t.seen, Known: t.known, Hub: t.knownHub, Ask: ask})
}

// resume answers an announcement: what was asked before is forgotten.
func (t *page) resume() {
	if t.w.without["forget"] && t.asking() {
		return
	}
	for _, p := range t.places {
		p.mode, p.asked = "asking", p.pos
	}
	t.post(wire.Rejoin{Standing: t.standing()})
}

// asking reports whether it waits for an answer.
func (t *page) asking() bool {
	for _, p := range t.places {
		if p.mode == "asking" && p.asked.Has {
			return true
		}
	}
	return false
}

func (t *page) ask(name string) {
	p := t.places[name]
	p.mode, p.asked = "asking", p.pos
	t.post(wire.Sub{Stream: name, Want: p.pos})
}

// wake forgets the hub: much may have happened.
func (t *page) forgetHub() {
	t.gen, t.hub, t.live = 0, "", false
	t.unpost()
	for _, p := range t.places {
		p.mode = "asking"
	}
}

// unpost has messages posted again with the next welcome: an answer may be lost.
func (t *page) unpost() {
	for _, m := range t.sent {
		m.hub = ""
	}
}

// hear takes what was posted to the channel.
func (t *page) hear(text string) {
	e, err := wire.DecodeEnvelope([]byte(text))
	if err != nil {
		t.w.fail("a tab got %s: %v", text, err)
		return
	}
	if e.Hub == "" || t.driver != nil {
		return
	}
	if e.Outranks(t.known, t.knownHub) {
		t.known, t.knownHub = e.Gen, e.Hub
	}
	lower := (wire.Envelope{Gen: t.gen, Hub: t.hub}).Outranks(e.Gen, e.Hub)
	if lower {
		if !t.w.without["tell"] {
			t.here(false)
		}
		return
	}
	frames := []json.RawMessage{json.RawMessage(e.Frame)}
	if e.Frame[0] == '[' {
		if err := json.Unmarshal(e.Frame, &frames); err != nil {
			t.w.fail("a tab got %s: %v", text, err)
			return
		}
	}
	for _, frame := range frames {
		t.hearFrame(e, wire.Raw(frame))
	}
}

// hearFrame takes one of the frames of an envelope that ranks high enough.
func (t *page) hearFrame(e wire.Envelope, text wire.Raw) {
	f, err := wire.DecodeFromHub(text)
	if err != nil {
		t.w.fail("a tab got %s: %v", text, err)
		return
	}
	if e.Outranks(t.gen, t.hub) {
		if e.Hub != t.hub && !t.w.without["again"] {
			t.unpost()
		}
		t.gen, t.hub = e.Gen, e.Hub
		t.live = false
		t.resume()
		state, ok := f.(wire.HubState)
		if !ok {
			return
		}
		state.Resume = false // done
		f = state
	}
	if e.To == "" || e.To == t.id {
		t.take(f)
	}
}

// take takes a frame of the hub it heeds.
func (t *page) take(f wire.Frame) {
	switch f := f.(type) {
	case wire.HubState:
		t.state(f)
	case wire.Welcome:
		t.welcome(f)
	case wire.Subbed:
		if p := t.places[f.Stream]; p != nil {
			t.answer(f.Stream, p, f.Answer)
		}
	case wire.Event:
		t.event(f.Stream, f.Seq, f.Data)
	case wire.Events:
		for i, data := range f.Data {
			t.event(f.Stream, f.From+uint64(i), data)
		}
	case wire.Snapshot:
		if p := t.places[f.Stream]; p != nil && p.mode == "resyncing" {
			t.move(p, f.Epoch, f.Seq)
			p.mode = "following"
		}
	case wire.Reset:
		if p := t.places[f.Stream]; p != nil {
			t.reset(f.Stream, p, wire.Answer{Seq: f.Seq, Epoch: f.Epoch, First: f.First, Resync: f.Snapshot})
		}
	case wire.Ack:
		t.settle(f.ID, "accepted")
	case wire.Nack:
		t.settle(f.ID, f.Outcome)
	case wire.Need:
		t.post(wire.Have{N: f.N, URL: "ws://x"})
	}
}

func (t *page) state(f wire.HubState) {
	t.last = f
	if f.Hub != "" { // by a call
		t.gen, t.hub = f.Gen, f.Hub
		if (wire.Envelope{Gen: f.Gen, Hub: f.Hub}).Outranks(t.known, t.knownHub) {
			t.known, t.knownHub = f.Gen, f.Hub
		}
	}
	if f.State != "live" {
		t.live = false
	}
	if f.Resume {
		t.resume()
	}
	if f.Beat {
		t.here(false)
	}
	if t.w.without["quiet"] {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(f.Quiet)) {
		last := f.Quiet[name]
		if p := t.places[name]; p != nil && p.mode == "following" && (p.pos.Epoch != last.Epoch || p.pos.After < last.After) {
			t.ask(name)
		}
	}
}

func (t *page) welcome(f wire.Welcome) {
	t.session, t.user = f.Session, f.User
	for _, name := range t.w.names {
		if p := t.places[name]; p != nil {
			a, ok := f.Own, true
			if name != "" {
				a, ok = f.Subs[name]
			}
			if ok {
				t.answer(name, p, a)
			}
		}
	}
	t.live, t.dedupe, t.dedupeMs = true, f.DedupeID, f.DedupeMs
	for _, m := range t.sent {
		if m.outcome != "" || !m.posted || m.hub == t.hub {
			continue
		}
		if (m.dedupe != f.DedupeID || t.w.now.Sub(m.first).Milliseconds() >= f.DedupeMs) && !t.w.without["dedupe"] {
			t.settle(m.id, "unknown")
			continue
		}
		t.mail(m, true)
	}
	t.flush()
}

// flush posts what waited for a connection.
func (t *page) flush() {
	for _, m := range t.sent {
		if t.live && m.outcome == "" && !m.posted {
			m.posted, m.first, m.dedupe = true, t.w.now, t.dedupe
			t.mail(m, false)
		}
	}
}

func (t *page) mail(m *letter, again bool) {
	f := wire.Msg{ID: m.id, Body: wire.Raw("1")}
	if again && !t.w.without["age"] {
		f.Dedupe, f.Age = m.dedupe, t.w.now.Sub(m.first).Milliseconds()
	}
	m.hub = t.hub
	t.post(f)
}

func (t *page) settle(id, outcome string) {
	for _, m := range t.sent {
		if m.id == id && m.outcome == "" { // a copy that was posted again may be answered too
			m.outcome = outcome
		}
	}
}

func (t *page) move(p *place, epoch string, seq uint64) {
	p.pos = wire.Want{Has: true, Epoch: epoch, After: seq}
	t.moved = t.gen
}

func covered(a wire.Answer, p wire.Want) bool {
	return p.Has && p.Epoch == a.Epoch && a.First <= p.After && p.After <= a.Seq
}

// answer takes what the server says of a stream.
func (t *page) answer(name string, p *place, a wire.Answer) {
	switch {
	case a.Error == wire.ErrBusy:
	case a.Error != "":
		t.w.fail("stream %q: %s", name, a.Error)
	case a.Resync:
		t.void(name, p, a)
	case !p.asked.Has && !p.pos.Has:
		if l := t.w.log(name); l != nil && l.snapshots {
			t.w.fail("%s begins with %q at %+v, without the snapshot", t.id, name, a)
		}
		t.move(p, a.Epoch, a.Seq)
		p.mode = "following"
	case covered(a, p.asked):
		p.mode = "following"
	default:
		t.void(name, p, a)
	}
}

// void takes the word that a position is worth nothing, unless it is covered.
func (t *page) void(name string, p *place, a wire.Answer) {
	keeps := covered(a, p.pos)
	if t.w.without["cover"] {
		keeps = p.pos.Has && a.First <= p.pos.After
	}
	if keeps {
		t.ask(name)
		return
	}
	if l := t.w.log(name); l != nil && l.covers(p.pos) {
		t.w.fail("%s at %v of %q is voided by %+v, but it is covered", t.id, p.pos, name, a)
	}
	p.pos = wire.Want{}
	p.mode = "resyncing"
	if !a.Resync {
		t.move(p, a.Epoch, a.Seq)
		p.mode = "following"
	}
}

// reset takes the word that there is a gap. Who is covered has lost nothing, and asks
// unless it stands where it asked from last.
func (t *page) reset(name string, p *place, a wire.Answer) {
	if !t.w.without["cover"] && covered(a, p.pos) {
		if p.pos != p.asked {
			t.ask(name)
		}
		return
	}
	t.void(name, p, a)
}

func (t *page) event(name string, seq uint64, data wire.Raw) {
	p := t.places[name]
	if p == nil || !p.pos.Has || seq <= p.pos.After {
		return
	}
	if p.mode != "following" && (p.mode != "asking" || !t.w.without["silence"]) {
		return
	}
	if seq > p.pos.After+1 {
		t.ask(name)
		return
	}
	text, _ := strconv.Unquote(string(data))
	epoch, number, _ := strings.Cut(text, ":")
	if epoch != p.pos.Epoch || number != strconv.FormatUint(seq, 10) {
		t.w.fail("%s at %v of %q takes event %d for %s", t.id, p.pos, name, seq, text)
	}
	t.move(p, p.pos.Epoch, seq)
}
