package server

import (
	"cmp"

	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// follow is one stream that a connection follows. It is guarded by the
// connection's mu, except topic and conn.
type follow struct {
	topic *topic
	conn  *conn
	// cursor is nil while there is no position: the client waits for a snapshot and
	// was nowhere before.
	cursor *stream.Cursor

	// owed: the client was told resync or reset. Until one snapshot or reset is
	// written no event of the stream is.
	owed      bool
	untold    bool    // the client is not told yet, as it is not known whether there is a snapshot
	flight    *flight // what is waited for, nil: there is no snapshot to be had
	overtaken int     // how many snapshots the log had passed when they came
	gap       string  // why the client's position was void

	replay  bool    // what was missed is still being written
	dropped bool    // it is followed no longer
	isDue   bool    // it is among conn.due
	next    *follow // there
}

// dues are the follows of a connection that have something to be written, or wait for
// it: a turn of the connection looks at these alone, however many it has.
type dues struct {
	first, last *follow
	n           int
}

func (d *dues) push(f *follow) {
	if d.n == 0 {
		d.first = f
	} else {
		d.last.next = f
	}
	d.last = f
	d.n++
}

func (d *dues) pop() *follow {
	f := d.first
	d.first, f.next = f.next, nil
	d.n--
	return f
}

// expect has the next turn of the connection look at f. It needs c.mu.
func (c *conn) expect(f *follow) {
	if !f.isDue && !f.dropped && !c.ended {
		f.isDue = true
		c.due.push(f)
	}
}

// grown is for a follow whose log has grown, for one of a crowd or not.
func (f *follow) grown(crowd bool) {
	c := f.conn
	c.mu.Lock()
	c.expect(f)
	c.mu.Unlock()
	c.worker.wake(c, crowd)
}

// drop gives the follow up.
func (f *follow) drop(s *Server) {
	f.lift()
	s.topics.leave(f.topic)
}

// place puts the cursor at after in the log, but never forward in the same one. What
// follows after is expected by the caller.
func (f *follow) place(c *conn, log *stream.Log, after uint64) {
	switch {
	case f.cursor == nil || f.cursor.Log() != log:
		f.lift()
		f.cursor = log.Cursor(after, c.worker, f)
	case after < f.cursor.After():
		f.cursor.Seek(after)
	}
}

// lift takes the cursor away, if there is one.
func (f *follow) lift() {
	if f.cursor != nil {
		f.cursor.Close()
		f.cursor = nil
	}
}

// settle puts the cursor at its position in a log that may have taken the place of its
// own. When the log does not cover that, it takes the cursor away and returns why.
func (f *follow) settle(c *conn, log *stream.Log) (gap string) {
	if f.cursor == nil {
		return ""
	}
	old, after := f.cursor.Log(), f.cursor.After()
	if log.Covers(old.Epoch(), after) {
		f.place(c, log, after)
		return ""
	}
	f.lift()
	if old != log {
		return renumbered
	}
	return "the connection was too slow for the log"
}

const renumbered = "the stream's numbering has started anew"

// ask answers what a client wants of the stream, and sets the follow accordingly.
// learned is a run of the snapshot function that may be used, or nil. It needs
// c.mu.
func (c *conn) ask(f *follow, want wire.Want, learned *flight) wire.Answer {
	log := f.topic.log()
	first, head := log.Bounds()
	a := wire.Answer{Seq: head, Epoch: log.Epoch(), First: first}
	gap := ""
	c.expect(f)
	c.wake()
	switch {
	case !want.Has:
		if !c.s.snapshots.mayHave(f.topic) {
			f.place(c, log, head)
			return a
		}
	case want.Epoch != log.Epoch():
		gap = renumbered
	case want.After > head:
		gap = "the position is beyond the stream's head"
	case want.After < first:
		gap = "the log no longer reaches back to the position"
	default:
		f.place(c, log, want.After)
		f.replay = f.cursor.After() < head
		return a
	}
	a.Resync, f.untold = true, false
	c.s.counters.resyncs.Add(1)
	c.owe(f, gap, learned)
	return a
}

// owe makes the writer send exactly one snapshot or reset. It needs c.mu.
func (c *conn) owe(f *follow, gap string, learned *flight) {
	if f.owed {
		return // the one under way comes after this answer too
	}
	f.owed, f.overtaken, f.gap = true, 0, gap
	f.flight = learned
	if learned == nil && c.s.snapshots.hasFunction(f.topic) {
		f.flight = c.s.snapshots.join(f.topic, c)
	}
}

// pay writes the snapshot or reset that is owed, if it can be had by now. It needs
// c.mu.
func (c *conn) pay(f *follow, o *output) {
	var result snapshotResult
	log := f.topic.log()
	if f.flight != nil {
		done := f.flight.result.Load()
		if done == nil {
			return
		}
		result = *done
		if result.frame != nil && (result.epoch != log.Epoch() || log.First() > result.seq) {
			if f.overtaken++; f.overtaken < 2 {
				f.flight = c.s.snapshots.join(f.topic, c)
				return
			}
			result = snapshotResult{reason: "the snapshot was overtaken by its log twice"}
		}
	}
	untold := f.untold
	f.owed, f.flight, f.untold = false, nil, false
	// With a cursor somebody may follow, and not wait: another question was answered
	// since, or this is a relay.
	gap := f.settle(c, log)
	if result.frame == nil {
		c.reset(f, o, cmp.Or(result.reason, f.gap, "the stream has no snapshot"))
		return
	}
	f.place(c, log, result.seq)
	if untold || gap != "" {
		c.announce(f, o, cmp.Or(f.gap, gap))
	}
	c.s.counters.snapshots.Add(1)
	o.shared(f.topic.name, nil, result.frame, nil, c.batch)
}

// reset writes that there is a gap which nothing bridges. It needs c.mu.
func (c *conn) reset(f *follow, o *output, reason string) {
	log := f.topic.log()
	f.place(c, log, c.tellGap(f, o, log, reason, false))
}

// fall is for a cursor that fell off its log, or whose log was voided. It needs c.mu.
func (c *conn) fall(f *follow, o *output) {
	gap := f.settle(c, f.topic.log())
	if gap == "" {
		return // the same numbering, which was read anew
	}
	switch {
	case !c.s.snapshots.mayHave(f.topic):
		c.reset(f, o, gap)
		return
	case f.topic.state.Load() == snapshotExists:
		c.announce(f, o, gap)
	default:
		f.untold = true
	}
	c.owe(f, gap, nil)
}

// announce writes that there is a gap which a snapshot will bridge. It needs c.mu.
func (c *conn) announce(f *follow, o *output, gap string) {
	c.tellGap(f, o, f.topic.log(), gap, true)
}

// tellGap writes a reset and returns the head of the log that it names.
func (c *conn) tellGap(f *follow, o *output, log *stream.Log, reason string, snapshot bool) (head uint64) {
	first, head := log.Bounds()
	c.s.counters.resets.Add(1)
	o.frame(wire.Reset{
		Stream: f.topic.name, Seq: head, Epoch: log.Epoch(), First: first, Snapshot: snapshot, Reason: reason,
	}, c.batch)
	return head
}

// readDue puts what the streams have to say into o, those first that were left over the
// last time. It needs c.mu.
func (c *conn) readDue(o *output) {
	for n := c.due.n; n > 0; n-- {
		if o.isFull() {
			o.more = true
			return
		}
		f := c.due.pop()
		if f.dropped {
			continue
		}
		c.read(f, o)
		if f.isDue = f.owed || f.cursor != nil && f.cursor.Pending(); f.isDue {
			c.due.push(f)
		}
	}
}

// read puts what the stream has to say into o. It needs c.mu.
func (c *conn) read(f *follow, o *output) {
	if f.owed {
		c.pay(f, o)
	}
	if f.owed || f.cursor == nil || !f.cursor.Pending() {
		return
	}
	if o.isFull() {
		o.more = true
		return
	}
	if f.replay && !c.s.replays.take(c) {
		return // it is woken when its turn comes
	}
	from, data, err := f.cursor.Next(o.data[:0], o.left())
	o.data = data
	if err != nil {
		f.replay = false
		c.fall(f, o)
		o.more = true
		return
	}
	if f.cursor.Pending() {
		o.more = true
	} else {
		f.replay = false
	}
	if m := c.worker.shared.message(f, o, from, data, c.batch); m != nil {
		o.share(m, c.batch)
	} else {
		o.events(f.topic.name, from, data, c.batch)
	}
}

// find returns the follow of the named stream, or nil. It needs c.mu.
func (c *conn) find(name string) *follow {
	for _, f := range c.follows {
		if f.topic.name == name {
			return f
		}
	}
	return nil
}
