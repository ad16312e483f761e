package integration_test

import (
	"strconv"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// follower is the application behind one subscription: it holds the client to the
// rules of positions.
type follower struct {
	l    *ledger
	c    *simClient
	key  string // of the ledger's log
	name string

	// Guarded by l.mu.
	sub     *reconnect.Subscription
	own     bool
	gone    time.Time // when it was unsubscribed
	before  int       // entries when it was subscribed to
	known   bool      // the application has been told where it stands:
	epoch   string    // at pos of epoch
	pos     uint64
	waiting bool // a gap was said, with a snapshot to follow
	state   int  // entries in the last snapshot; -1: none since an event
	last    int  // the last entry delivered or contained
}

func (f *follower) handler() reconnect.Handler {
	return reconnect.Handler{
		Event:     func(e reconnect.EventInfo) { f.c.slow(); f.event(e) },
		Snapshot:  f.snapshot,
		Recovered: f.recovered,
		Refused:   func(err error) { f.l.note("%s: %v", f.name, err) },
	}
}

func (f *follower) position() (reconnect.Position, bool) {
	f.l.mu.Lock()
	sub := f.sub
	f.l.mu.Unlock()
	if sub == nil {
		return reconnect.Position{}, false
	}
	return sub.Position()
}

func (f *follower) wrong(format string, args ...any) {
	f.l.failLocked(f.name+" at "+strconv.FormatUint(f.pos, 10)+" of "+f.epoch+": "+format, args...)
}

// called judges that a handler is called at all.
func (f *follower) called(what string) {
	if !f.gone.IsZero() && time.Now().After(f.gone) {
		f.wrong("%s after Unsubscribe", what)
	}
}

func (f *follower) event(e reconnect.EventInfo) {
	at, has := f.position()
	l := f.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked("%s: event %d %s", f.name, e.Seq, e.Data)
	// called is not asked: a handler that was slow went on to its end.
	key, n := parsePayload(e.Data)
	if key != f.key || n < 1 || n > len(l.log(key).entries) {
		f.wrong("event %d is %s", e.Seq, e.Data)
		return
	}
	switch seq := l.log(key).entries[n-1].seq; {
	case f.waiting:
		f.wrong("event %d before the snapshot", e.Seq)
	case !has && f.sub != nil:
		f.wrong("event %d without a position", e.Seq)
	case has && at.Seq+1 != e.Seq:
		f.wrong("event %d at position %+v", e.Seq, at)
	case seq != 0 && seq != e.Seq:
		f.wrong("event %d is %s, which was published as %d", e.Seq, e.Data, seq)
	case f.known && (f.pos+1 != e.Seq || has && f.epoch != at.Epoch):
		f.wrong("event %d of %s", e.Seq, at.Epoch)
	case !f.known && n <= f.before && !f.own: // that one goes on from the welcome
		f.wrong("event %s, of before it was subscribed to", e.Data)
	case n <= f.last && f.state < 0:
		f.wrong("event %s once more", e.Data)
	case f.state >= 0 && (n > f.state+1 || n < f.state+1 && l.p.Snapshots != implied && !f.own):
		f.wrong("event %s after a snapshot of %d", e.Data, f.state)
	}
	if has {
		l.bind(at.Epoch, key, e.Seq, n)
		f.epoch = at.Epoch
	}
	f.known, f.pos, f.state, f.last = true, e.Seq, -1, n
}

func (f *follower) snapshot(s reconnect.SnapshotInfo) {
	at, has := f.position()
	l := f.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked("%s: snapshot %s at %+v", f.name, s.State, s.Position)
	f.called("a snapshot")
	state, err := strconv.Atoi(string(s.State))
	switch {
	case err != nil:
		f.wrong("snapshot %s", s.State)
	case has:
		f.wrong("a snapshot, but the position %+v was not void", at)
	case f.known:
		f.wrong("a snapshot at %+v and no word of a gap", s.Position)
	case state < f.last:
		f.wrong("a snapshot of %d entries after %d", state, f.last)
	}
	if num, ok := l.numbering[s.Position.Epoch]; ok && num.key == f.key && num.shift+int(s.Position.Seq) > state {
		f.wrong("a snapshot of %d entries that stands behind entry %d", state, num.shift+int(s.Position.Seq))
	}
	f.known, f.waiting = true, false
	f.epoch, f.pos, f.state, f.last = s.Position.Epoch, s.Position.Seq, state, state
}

func (f *follower) recovered(r reconnect.Recovery) {
	switch r.Outcome {
	case reconnect.NothingMissed, reconnect.Replayed:
		f.resumed(r)
	case reconnect.GapWithSnapshot, reconnect.GapWithoutSnapshot:
		f.gap(r)
	}
}

func (f *follower) gap(g reconnect.Recovery) {
	snapshot := g.Outcome == reconnect.GapWithSnapshot
	l := f.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked("%s: gap %+v", f.name, g)
	f.called("a gap")
	switch {
	case f.waiting && snapshot:
		f.wrong("a second gap before the snapshot")
	case f.known && l.covered(f.key, f.epoch, f.pos):
		f.wrong("a gap (%s), but the log reaches back", g.Reason)
	}
	f.waiting, f.known, f.state = snapshot, !snapshot, -1
	if f.known {
		f.epoch, f.pos = g.Position.Epoch, g.Position.Seq
	}
}

func (f *follower) resumed(r reconnect.Recovery) {
	l := f.l
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked("%s: resumed, missed %d", f.name, r.Missed)
	f.called("resumed")
	if f.waiting {
		f.wrong("resumed before the snapshot")
	}
	num, ok := l.numbering[f.epoch]
	if n := len(l.log(f.key).entries); ok && f.known && num.shift+int(f.pos+r.Missed) > n {
		f.wrong("resumed with %d missed: there are %d entries", r.Missed, n)
	}
}

// atHead reports whether everything has been delivered, one way or another.
func (f *follower) atHead() bool {
	at, has := f.position()
	f.l.mu.Lock()
	defer f.l.mu.Unlock()
	entries := f.l.log(f.key).entries
	if len(entries) == 0 || f.waiting || !has {
		return has
	}
	return f.last == len(entries) || entries[len(entries)-1].seq == at.Seq && at.Seq > 0
}
