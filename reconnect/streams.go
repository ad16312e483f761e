package reconnect

import (
	"slices"
	"strconv"
	"time"

	"github.com/longwire/longwire/wire"
)

// follow is the place of the client in one stream. The position moves by
// delivery only, by exactly one; a resync voids it.
type follow struct {
	state StreamState
	pos   wire.Want
	asked wire.Want // the position in the last resume or sub
	named bool      // the last resume was for this subscription, not for one before it
	err   string
	lost  bool     // a resync has voided a position, and is not bridged yet
	owed  bool     // a gap was said, and its snapshot is not there yet
	holes int      // asked again since the last progress
	busy  deadline // when to ask again after "busy"

	// Of a relay: positions to ask for again when busy is due, and how often which
	// one was asked for lately.
	again    []wire.Want
	repeated map[wire.Want]repeat
}

// minAskAgain is the shortest wait after "busy", whatever the server says.
const minAskAgain = 100 * time.Millisecond

func (f *follow) disconnected() {
	f.busy.clear()
	f.holes, f.again = 0, nil
	clear(f.repeated)
	if f.state != StreamRefused {
		f.state = Asking
	}
}

// void forgets the position: only a snapshot or a reset sets it again.
func (f *follow) void() { f.pos = wire.Want{} }

// ask fills a resume frame with what is wanted now.
func (m *Machine) ask(f *wire.Resume) {
	for name, s := range m.streams {
		s.asked, s.named = s.pos, true
		if m.conn == 0 { // else events go on until the answer
			s.state, s.err = Asking, ""
		}
		if name == "" {
			f.Own = s.pos
			continue
		}
		if f.Subs == nil {
			f.Subs = make(map[string]wire.Want)
		}
		f.Subs[name] = s.pos
	}
}

func (m *Machine) subscribe(stream string, from wire.Want) {
	if m.streams[stream] == nil {
		m.streams[stream] = &follow{pos: from}
	} else if !m.p.Relay {
		return
	}
	// A relay passes each request on: the server's cursor goes back for whoever
	// is behind, never forward.
	m.changed = true
	if m.conn == 0 {
		return
	}
	if f := m.streams[stream]; m.p.Relay && f.repeats(m.now, from) {
		f.askLater(from)
		if !f.busy.on {
			f.busy.set(m.now, repeatWait)
		}
		return
	}
	m.sub(stream, from)
}

func (m *Machine) unsubscribe(stream string) {
	if _, ok := m.streams[stream]; !ok {
		return
	}
	delete(m.streams, stream)
	m.changed = true
	if m.conn != 0 && m.version > 0 && stream != "" { // the own stream is always followed
		m.write(wire.Unsub{Stream: stream})
	}
}

// positions replaces what is wanted, between connections.
func (m *Machine) positions(streams map[string]wire.Want) {
	if m.try.phase == phaseWelcome || m.conn != 0 && m.try.phase == phaseNone {
		return // a connection is asked with sub and unsub
	}
	for name := range m.streams {
		if _, ok := streams[name]; !ok {
			delete(m.streams, name)
		}
	}
	for name, want := range streams {
		m.streams[name] = &follow{pos: want}
	}
	m.changed = true
}

// sub asks for one stream on a live connection. Answers come in order, one for
// each, and only the last one counts.
func (m *Machine) sub(stream string, from wire.Want) {
	if m.version == 0 {
		if stream == "" {
			m.ownAgain(from)
		} else {
			m.refuse(stream, noNamedStreams)
		}
		return
	}
	f := m.streams[stream]
	f.state, f.err = Asking, ""
	if len(f.again) == 0 {
		f.busy.clear()
	}
	f.asked = from
	m.subs[stream] = append(m.subs[stream], asking{f, from})
	m.write(wire.Sub{Stream: stream, Want: from})
}

// ownAgain answers for a server of the base frames, which knows no sub: its own
// stream goes on where it stands.
func (m *Machine) ownAgain(from wire.Want) {
	f := m.streams[""]
	a := m.greeting.Own
	if f.pos.Has {
		a = wire.Answer{Seq: max(a.Seq, f.pos.After), Epoch: f.pos.Epoch}
	}
	if a.Error == "" {
		if m.p.Relay {
			a.First = a.Seq // whoever stands before cannot be served
		}
		f.asked = f.pos
		m.do(Deliver{Frame: wire.Subbed{Answer: a}, Asked: from})
		m.answer("", f, f.asked, a)
	}
}

const noNamedStreams = "this server knows no named streams"

// refuse marks a stream as refused and says so to whoever wants it.
func (m *Machine) refuse(stream, why string) {
	f := m.streams[stream]
	f.state, f.err = StreamRefused, why
	m.changed = true
	m.do(Deliver{Frame: wire.Subbed{Stream: stream, Answer: wire.Answer{Error: why}}})
}

// giveUp stops wanting a stream and says why.
func (m *Machine) giveUp(stream, why string) {
	if m.streams[stream] != nil {
		m.refuse(stream, why)
		delete(m.streams, stream)
	}
}

// answers takes what the welcome says of each stream, and asks again for some.
func (m *Machine) answers(w wire.Welcome, again []string) {
	for name, f := range m.streams {
		a, ok := w.Subs[name]
		if name == "" {
			a, ok = w.Own, true
		}
		switch {
		case slices.Contains(again, name):
			m.sub(name, f.pos)
		case name == "" && m.p.Dialect != nil && a.Error != "":
		case ok:
			m.answer(name, f, f.asked, a)
		case w.V == 0:
			m.refuse(name, noNamedStreams)
		default:
			m.sub(name, f.pos) // subscribed to while the welcome was under way
		}
	}
}

func (m *Machine) subbed(f wire.Subbed, text []byte) {
	s := m.streams[f.Stream]
	asked := asking{f: s}
	if queue := m.subs[f.Stream]; len(queue) > 0 {
		asked, m.subs[f.Stream] = queue[0], queue[1:]
	} else if f.Answer.Error == "" {
		m.problem("an answer for a stream nobody asked for")
		return
	}
	if s == nil || asked.f != s {
		return // of a subscription that is over
	}
	if len(m.subs[f.Stream]) > 0 && !m.p.Relay {
		return // only the last answer counts
	}
	m.do(Deliver{Frame: f, Asked: asked.want, Text: text})
	m.answer(f.Stream, s, asked.want, f.Answer)
}

// answer takes what the server says of a stream that was asked for from asked.
func (m *Machine) answer(name string, f *follow, asked wire.Want, a wire.Answer) {
	m.changed = true
	switch {
	case a.Error == wire.ErrBusy:
		f.state, f.err = Asking, a.Error
		f.busy.set(m.now, clampMs(a.Retry, busyFloor, minAskAgain))
		if m.p.Relay {
			f.askLater(asked)
		}
	case a.Error != "":
		f.state, f.err = StreamRefused, a.Error
	case a.Resync:
		if f.pos.Has {
			f.lost = true
		}
		f.void()
		f.state = Resyncing
	case !asked.Has && (f.lost || f.owed) && !m.p.Relay:
		// What was to bridge the gap never came, and now there is no snapshot.
		m.gap(f, wire.Reset{Stream: name, Seq: a.Seq, Epoch: a.Epoch, First: a.First, Reason: "what was missed is gone"}, nil)
	case !asked.Has || m.p.Relay:
		// Asked for without a position, and there is no snapshot: from now on.
		// A relay believes: whoever holds a position checks it.
		if !f.pos.Has {
			f.pos = wire.Want{Has: true, After: a.Seq, Epoch: a.Epoch}
		}
		f.state = Following
	case asked.Epoch != a.Epoch || asked.After > a.Seq || asked.After < a.First && m.version > 0:
		// It says that the rest follows, but it cannot. Say that there is a gap.
		m.problem("the server resumes stream \"" + name + "\" from a position that it does not cover")
		m.gap(f, wire.Reset{Stream: name, Seq: a.Seq, Epoch: a.Epoch, First: a.First, Reason: "position not covered"}, nil)
	default:
		f.state = Following
		m.account.totals.Resumed++
		m.account.totals.Replayed += a.Seq - min(f.pos.After, a.Seq)
	}
}

// events delivers n events from the number from on, of which some may be known.
func (m *Machine) events(stream string, from, n uint64, frame wire.Frame, text []byte) {
	f := m.streams[stream]
	t := &m.account.totals
	if f == nil {
		t.Unwanted += n
		return
	}
	if n == 0 {
		return
	}
	if e, ok := frame.(wire.Event); ok && m.version == 0 && m.p.Dialect == nil {
		frame, text = wire.Event{Seq: e.Seq, Stream: e.Stream, Data: e.Rest()}, nil
	}
	last := from + n - 1
	if m.p.Relay && m.version > 0 {
		f.pos = wire.Want{Has: true, After: last, Epoch: f.pos.Epoch}
		t.Delivered += n
		m.do(Deliver{Frame: frame, Text: text})
		return
	}
	if f.state != Following {
		t.Unwanted += n
		return
	}
	if last <= f.pos.After {
		t.Duplicates += n
		return
	}
	if from > f.pos.After+1 {
		m.hole(stream, f, from)
		return
	}
	skip := int(f.pos.After + 1 - from) //nolint:gosec // below n
	f.pos.After = last
	f.holes = 0
	t.Duplicates += uint64(skip)
	t.Delivered += n - uint64(skip)
	m.do(Deliver{Frame: frame, Skip: skip, Text: text})
}

// hole asks for a stream again from where it stands.
func (m *Machine) hole(stream string, f *follow, at uint64) {
	m.account.totals.Holes++
	m.problem("hole in stream " + strconv.Quote(stream) + ": got " + strconv.FormatUint(at, 10) + " instead of " + strconv.FormatUint(f.pos.After+1, 10))
	f.holes++
	if m.version == 0 || f.holes > maxHoles {
		m.abandon(wire.CloseBadRequest, "hole in a stream")
		return
	}
	m.sub(stream, f.pos)
}

// snapshot takes the state of a stream that was told to resync.
func (m *Machine) snapshot(s wire.Snapshot, text []byte) {
	f := m.streams[s.Stream]
	if f == nil {
		return
	}
	if !s.HasSeq {
		if m.version > 0 {
			m.bad(m.conn, "snapshot: seq: missing")
			return
		}
		s.HasSeq, s.Seq, text = true, m.greeting.Own.Seq, nil
	}
	if m.version == 0 && s.Epoch == "" {
		s.Epoch, text = m.session, nil
	}
	if f.state != Resyncing && !m.p.Relay {
		return
	}
	f.pos = wire.Want{Has: true, After: s.Seq, Epoch: s.Epoch}
	f.state, f.owed = Following, false
	m.account.totals.Snapshots++
	if f.lost {
		f.lost = false
		m.account.totals.Gaps++
	}
	m.changed = true
	m.do(Deliver{Frame: s, Text: text})
}

func (m *Machine) resetStream(r wire.Reset, text []byte) {
	f := m.streams[r.Stream]
	switch {
	case f == nil:
	case m.p.Relay:
		m.gap(f, r, text)
	case f.owed && r.Snapshot: // it was said, and the snapshot is still to come
	case f.state == Following && covers(r, f.pos):
		// It is owed to an earlier question: nothing is lost. After the last answer the
		// rest follows, if nothing came since.
		if f.pos != f.asked {
			m.sub(r.Stream, f.pos)
		}
	case f.state == Following, f.state == Resyncing:
		m.gap(f, r, text)
	}
}

// covers reports whether the log that a reset speaks of reaches back to a position.
func covers(r wire.Reset, at wire.Want) bool {
	return at.Has && at.Epoch == r.Epoch && r.First <= at.After && at.After <= r.Seq
}

// gap says that there is one, and takes the position behind it unless a
// snapshot brings it.
func (m *Machine) gap(f *follow, r wire.Reset, text []byte) {
	if !f.owed {
		m.account.totals.Gaps++
	}
	f.lost, f.owed = false, r.Snapshot
	if r.Snapshot {
		f.void()
		f.state = Resyncing
	} else {
		f.pos = wire.Want{Has: true, After: r.Seq, Epoch: r.Epoch}
		f.state = Following
	}
	m.changed = true
	m.do(Deliver{Frame: r, Text: text})
}

// forgetSession drops the session and what belongs to it; named streams stay.
func (m *Machine) forgetSession() {
	m.session = ""
	if f := m.streams[""]; f != nil {
		f.lost = f.lost || f.pos.Has
		f.void()
	}
}
