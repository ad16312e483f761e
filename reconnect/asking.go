package reconnect

import (
	"maps"
	"slices"
	"time"

	"github.com/longwire/longwire/wire"
)

// maxHoles bounds how often a stream is asked for again on one connection
// without any progress in between. Then a relay, whose tabs may ask together,
// passes on one request each repeatWait; others give the connection up.
const (
	maxHoles   = 3
	repeatWait = time.Second
)

// repeat counts requests for one position, each within repeatWait of the last.
type repeat struct {
	n    int
	last time.Time
}

// asking is a sub frame that is not answered yet.
type asking struct {
	f    *follow
	want wire.Want
}

// earlier takes out of a welcome what it answers to questions that are over, and
// returns the streams that are to be asked for again: those that are followed anew
// since, and those that stand elsewhere since, as the connection before it, which
// drained, has told of a gap or brought events meanwhile.
func (m *Machine) earlier(w *wire.Welcome) (again []string) {
	if w.V == 0 {
		return nil
	}
	for name, f := range m.streams {
		a, ok := w.Subs[name]
		if name == "" {
			a, ok = w.Own, true
		}
		if !ok || f.named && !f.outlives(a) {
			continue
		}
		again = append(again, name)
		delete(w.Subs, name)
		if name == "" {
			w.Own = wire.Answer{Error: wire.ErrBusy}
		}
	}
	return again
}

// outlives reports whether an answer says nothing of the position any more: it voids
// another one, or goes on in another numbering.
func (f *follow) outlives(a wire.Answer) bool {
	switch {
	case a.Error != "":
		return false
	case a.Resync:
		return f.pos.Has && f.pos != f.asked
	}
	return f.pos.Epoch != f.asked.Epoch
}

// repeats reports whether a position is asked for over and over on one connection:
// what the server sends from there brings nobody forward. Without a position it is one
// new tab after the other that asks.
func (f *follow) repeats(now time.Time, from wire.Want) bool {
	if !from.Has {
		return false
	}
	if f.repeated == nil {
		f.repeated = make(map[wire.Want]repeat)
	}
	maps.DeleteFunc(f.repeated, func(_ wire.Want, r repeat) bool { return Elapsed(r.last, now) > repeatWait })
	r := repeat{f.repeated[from].n + 1, now}
	f.repeated[from] = r
	return r.n > maxHoles
}

func (f *follow) askLater(from wire.Want) {
	if !slices.Contains(f.again, from) {
		f.again = append(f.again, from)
	}
}

// askBusy asks again for streams that were busy.
func (m *Machine) askBusy() {
	for name, f := range m.streams {
		if !f.busy.due(m.now) {
			continue
		}
		if !m.p.Relay {
			m.sub(name, f.pos)
			continue
		}
		// Its own position is the server's cursor.
		again := f.again
		f.again = nil
		f.busy.clear()
		for _, want := range again {
			if r, ok := f.repeated[want]; ok {
				f.repeated[want] = repeat{r.n, m.now}
			}
			m.sub(name, want)
		}
	}
}
