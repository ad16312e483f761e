package reconnect_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// model is a server in the plainest terms: a slice for each log, a map for the
// messages it has handled. It shares no code with the real one.
type model struct {
	epoch     int // of the stream "a"; a restart begins a new one
	log       []int
	first     int // how many entries are trimmed
	dedupe    int // which memory of ids
	effects   map[string]int
	snapshots bool
	session   int

	// The current connection.
	conn    uint64
	open    bool
	greeted bool
	cursor  int // -1: not following
	toUs    []string
	toThem  []string
}

func (v *model) epochName() string { return fmt.Sprintf("e%d", v.epoch) }

// answer decides how stream a goes on, and queues a snapshot if it must.
func (v *model) answer(w wire.Want) (wire.Answer, []string) {
	a := wire.Answer{Seq: uint64(len(v.log)), Epoch: v.epochName(), First: uint64(v.first)}
	covered := w.Has && w.Epoch == a.Epoch && w.After >= a.First && w.After <= a.Seq
	switch {
	case covered:
		v.cursor = int(w.After)
		return a, nil
	case !w.Has && !v.snapshots:
		v.cursor = len(v.log)
		return a, nil
	}
	a.Resync = true
	v.cursor = len(v.log)
	if v.snapshots {
		return a, []string{string(wire.Snapshot{HasSeq: true, Seq: a.Seq, Epoch: a.Epoch, Stream: "a", State: wire.Raw("0")}.Append(nil))}
	}
	return a, []string{string(wire.Reset{Stream: "a", Seq: a.Seq, Epoch: a.Epoch, First: a.First, Reason: "gap"}.Append(nil))}
}

// take handles one frame of the client.
func (v *model) take(text string) {
	frames, err := wire.Decode([]byte(text))
	if err != nil {
		panic(err)
	}
	reply := func(f wire.Frame) { v.toUs = append(v.toUs, string(f.Append(nil))) }
	switch f := frames[0].(type) {
	case wire.Resume:
		w := wire.Welcome{
			V: 1, Session: fmt.Sprintf("s%d", v.session), Gen: f.Gen, User: "ada", Own: wire.Answer{Epoch: "own"},
			Heartbeat: 15000, Spread: 1000, Window: 3, DedupeID: fmt.Sprintf("d%d", v.dedupe), DedupeMs: 600000,
		}
		var after []string
		if want, ok := f.Subs["a"]; ok {
			var a wire.Answer
			a, after = v.answer(want)
			w.Subs = map[string]wire.Answer{"a": a}
		}
		v.greeted = true
		reply(w)
		v.toUs = append(v.toUs, after...)
	case wire.Sub:
		old := v.cursor
		a, after := v.answer(f.Want)
		if old >= 0 && f.Want.Has {
			v.cursor = min(v.cursor, max(old, 0))
		}
		reply(wire.Subbed{Stream: "a", Answer: a})
		v.toUs = append(v.toUs, after...)
	case wire.Unsub:
		v.cursor = -1
	case wire.Msg:
		v.effects[f.ID] = max(v.effects[f.ID], 1)
		reply(wire.Ack{ID: f.ID})
	case wire.Ping:
		reply(wire.Pong(f))
	}
}

// push queues the next events, up to n in one frame.
func (v *model) push(n int) {
	if !v.open || !v.greeted || v.cursor < 0 || v.cursor >= len(v.log) {
		return
	}
	if v.cursor < v.first {
		a, after := v.answer(wire.Want{Has: true, Epoch: "none"})
		v.toUs = append(v.toUs, string(wire.Reset{Stream: "a", Seq: a.Seq, Epoch: a.Epoch, First: a.First, Snapshot: v.snapshots, Reason: "slow"}.Append(nil)))
		if v.snapshots {
			v.toUs = append(v.toUs, after...)
		}
		return
	}
	f := wire.Events{From: uint64(v.cursor + 1), Stream: "a"}
	for _, value := range v.log[v.cursor:min(v.cursor+n, len(v.log))] {
		f.Data = append(f.Data, fmt.Appendf(nil, "%d", value))
	}
	v.cursor += len(f.Data)
	v.toUs = append(v.toUs, string(f.Append(nil)))
}

// world joins a machine and a model over a network that delivers, delays, cuts.
type world struct {
	t     *rapid.T
	m     *reconnect.Machine
	v     *model
	now   time.Time
	queue []reconnect.Event

	// What the application has seen.
	pos      wire.Want
	settled  map[string]reconnect.Outcome
	sent     int
	awaiting bool // a URL
	attempt  uint64
}

func (w *world) handle(ev reconnect.Event) {
	w.queue = append(w.queue, ev)
	for len(w.queue) > 0 {
		ev := w.queue[0]
		w.queue = w.queue[1:]
		dials := 0
		for _, a := range slices.Clone(w.m.Handle(w.now, ev)) {
			if _, ok := a.(reconnect.Dial); ok {
				dials++
			}
			w.act(a)
		}
		if dials > 1 {
			w.t.Fatalf("%d dials at once", dials)
		}
	}
}

func (w *world) act(a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.FetchURL:
		w.awaiting, w.attempt = true, a.Attempt
	case reconnect.Dial:
		if w.v.open {
			w.t.Fatalf("dial %d while connection %d lives", a.Conn, w.v.conn)
		}
		*w.v = model{
			epoch: w.v.epoch, log: w.v.log, first: w.v.first, dedupe: w.v.dedupe, effects: w.v.effects,
			snapshots: w.v.snapshots, session: w.v.session, conn: a.Conn, cursor: -1,
		}
	case reconnect.Write:
		if a.Conn != w.v.conn || !w.v.open {
			w.t.Fatalf("write on connection %d, current is %d", a.Conn, w.v.conn)
		}
		w.v.toThem = append(w.v.toThem, string(a.Data))
	case reconnect.Abandon:
		w.v.open, w.v.conn = false, 0
	case reconnect.Deliver:
		w.deliver(a)
	case reconnect.Settle:
		if old, ok := w.settled[a.ID]; ok {
			w.t.Fatalf("%s settled as %v and then as %v", a.ID, old, a.Outcome)
		}
		w.settled[a.ID] = a.Outcome
	}
}

func (w *world) deliver(a reconnect.Deliver) {
	switch f := a.Frame.(type) {
	case wire.Welcome:
		if answer, ok := f.Subs["a"]; ok {
			w.answered(answer)
		}
	case wire.Subbed:
		w.answered(f.Answer)
	case wire.Snapshot:
		w.pos = wire.Want{Has: true, After: f.Seq, Epoch: f.Epoch}
	case wire.Reset:
		w.pos = wire.Want{Has: !f.Snapshot, After: f.Seq, Epoch: f.Epoch}
	case wire.Events:
		for i := a.Skip; i < len(f.Data); i++ {
			seq := f.From + uint64(i)
			if !w.pos.Has || seq != w.pos.After+1 {
				w.t.Fatalf("event %d delivered at position %+v", seq, w.pos)
			}
			w.pos.After = seq
			// The value says which event it is, over all epochs.
			if w.pos.Epoch == w.v.epochName() && string(f.Data[i]) != fmt.Sprint(w.v.log[seq-1]) {
				w.t.Fatalf("event %d of %s is %s, want %d", seq, w.pos.Epoch, f.Data[i], w.v.log[seq-1])
			}
		}
	}
}

func (w *world) answered(a wire.Answer) {
	switch {
	case a.Resync:
		w.pos.Has = false
	case !w.pos.Has:
		w.pos = wire.Want{Has: true, After: a.Seq, Epoch: a.Epoch}
	}
}

// step does one thing that can happen.
func (w *world) step(kind string) {
	v := w.v
	switch kind {
	case "publish":
		v.log = append(v.log, v.epoch*1_000_000+len(v.log)+1)
	case "push":
		v.push(rapid.IntRange(1, 5).Draw(w.t, "batch"))
	case "trim":
		v.first = len(v.log)
	case "restart":
		v.epoch++
		v.log, v.first = nil, 0
		v.session++
		w.cut(1006)
		if rapid.Bool().Draw(w.t, "forget ids") {
			v.dedupe++
		}
	case "cut":
		w.cut(rapid.SampledFrom([]int{1006, 1001, 1011, 1012, 1013, 4401, 4409}).Draw(w.t, "code"))
	case "send":
		w.sent++
		w.handle(send(fmt.Sprintf("m%d", w.sent)))
	case "cancel":
		w.handle(reconnect.Cancel{ID: fmt.Sprintf("m%d", rapid.IntRange(1, w.sent+1).Draw(w.t, "id"))})
	case "to them":
		if v.open && len(v.toThem) > 0 {
			text := v.toThem[0]
			v.toThem = v.toThem[1:]
			v.take(text)
		}
	case "to us":
		if v.open && len(v.toUs) > 0 {
			text := v.toUs[0]
			v.toUs = v.toUs[1:]
			w.handle(reconnect.Received{Conn: v.conn, Data: []byte(text)})
		}
	case "url":
		if w.awaiting {
			w.awaiting = false
			w.handle(reconnect.URLReady{Attempt: w.attempt, URL: "ws://x"})
		}
	case "open":
		if v.conn > 0 && !v.open && !v.greeted {
			v.open = true
			w.handle(reconnect.Opened{Conn: v.conn})
		}
	case "kick":
		w.handle(reconnect.Signal{Kind: reconnect.Visible})
	case "sleep":
		w.handle(reconnect.Sleep{})
	case "wake":
		w.handle(reconnect.Wake{})
	case "time":
		w.now = w.now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(w.t, "ms")) * time.Millisecond)
		w.handle(reconnect.Tick{})
	case "lose": // what no network does, but a server with a fault in it
		if v.open && v.greeted && len(v.toUs) > 0 && strings.Contains(v.toUs[0], `"t":"events"`) {
			v.toUs = v.toUs[1:]
		}
	case "progress":
		for range rapid.IntRange(1, 4).Draw(w.t, "rounds") {
			w.round()
		}
	case "resubscribe":
		w.pos = wire.Want{}
		w.handle(reconnect.Unsubscribe{Stream: "a"})
		w.handle(reconnect.Subscribe{Stream: "a"})
	case "start":
		w.handle(reconnect.Reauthorize{})
		w.handle(reconnect.DialNow{})
	}
}

func (w *world) cut(code int) {
	if w.v.open {
		conn := w.v.conn
		w.v.open, w.v.conn = false, 0
		w.handle(reconnect.Closed{Conn: conn, Code: code})
	}
}

var steps = []string{
	"publish", "publish", "push", "push", "trim", "restart", "cut", "send", "send", "cancel", "to them", "to them", "to them",
	"to us", "to us", "to us", "url", "url", "open", "open", "kick", "sleep", "wake", "time", "time", "resubscribe", "start", "lose",
	"progress", "progress", "progress", "progress", "progress", "progress", "progress", "progress",
}

// round lets everything move on by one.
func (w *world) round() {
	for _, kind := range []string{"url", "open", "to them", "push", "to us"} {
		w.step(kind)
	}
	if left, ok := w.m.Next(w.now); ok && (!w.v.open || len(w.v.toUs) == 0 && len(w.v.toThem) == 0) {
		w.now = w.now.Add(max(left, time.Millisecond))
		w.handle(reconnect.Tick{})
	}
}

// heal lets the network work until nothing is left to do.
func (w *world) heal() {
	w.handle(reconnect.Wake{})
	w.handle(reconnect.Reauthorize{})
	w.handle(reconnect.DialNow{})
	for begun := w.now; w.now.Sub(begun) < 5*time.Minute; {
		v := w.v
		st := w.m.Status()
		if st.State == reconnect.Live && st.Pending == 0 && len(v.toUs) == 0 && len(v.toThem) == 0 && w.pos.Has && int(w.pos.After) == len(v.log) && w.pos.Epoch == v.epochName() {
			return
		}
		w.round()
	}
	w.t.Fatalf("it does not come to rest: %+v\nposition %+v, log of %d in %s\nto us %v to them %v", w.m.Status(), w.pos, len(w.v.log), w.v.epochName(), w.v.toUs, w.v.toThem)
}

// Whatever happens: no event twice, out of order or skipped in silence; each
// send settled once; what was reported as not sent never has an effect.
func TestAnyScheduleIsLossless(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Float64Range(1e-6, 0.999).Draw(t, "rand")
		m, err := reconnect.NewMachine(reconnect.Policy{Rand: func() float64 { return seed }, Expiry: 24 * time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		w := &world{
			t: t, m: m, now: time.UnixMilli(1_000_000), settled: map[string]reconnect.Outcome{},
			v: &model{effects: map[string]int{}, snapshots: rapid.Bool().Draw(t, "snapshots"), cursor: -1},
		}
		w.handle(reconnect.Subscribe{Stream: "a"})
		w.handle(reconnect.Start{})
		for _, kind := range rapid.SliceOfN(rapid.SampledFrom(steps), 20, 200).Draw(t, "steps") {
			w.step(kind)
		}
		w.heal()
		if len(w.settled) != w.sent {
			t.Fatalf("%d messages, settled %v", w.sent, w.settled)
		}
		for _, id := range slices.Sorted(maps.Keys(w.settled)) {
			effect := w.v.effects[id] > 0
			if outcome := w.settled[id]; outcome == reconnect.Accepted && !effect || outcome == reconnect.NotSent && effect {
				t.Fatalf("%s: %v, but effect %v", id, outcome, effect)
			}
		}
	})
}
