package reconnect_test

import (
	"slices"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

func (d *fuzzDriver) fail(format string, args ...any) {
	d.t.Helper()
	d.t.Fatalf(format+"\n%+v", append(args, d.m.Status())...)
}

// about tells of a socket. Of one that is gone it must change nothing.
func (d *fuzzDriver) about(id uint64, ev reconnect.Event) {
	if d.sockets[id] == nil {
		d.handle(reconnect.Tick{}) // what is due happens before
		if actions := d.handle(ev); len(actions) > 0 {
			d.fail("%#v of a socket that is gone: %#v", ev, actions)
		}
		return
	}
	if _, ok := ev.(reconnect.Closed); ok {
		d.drop(id)
	}
	d.handle(ev)
}

func (d *fuzzDriver) drop(id uint64) {
	delete(d.sockets, id)
	d.dead = append(d.dead, id)
}

func (d *fuzzDriver) receive(id uint64, text string, binary bool) {
	if s := d.sockets[id]; s != nil {
		if !s.opened {
			return // nothing arrives before the socket is open
		}
		d.hear(s, text)
	}
	d.about(id, reconnect.Received{Conn: id, Data: []byte(text), Binary: binary})
}

// hear notes what a message is a reason for: a second connection, when the node goes
// away, or holds everything up for a message that may be withdrawn; and to take a
// message that was refused for now as one that was never written.
func (d *fuzzDriver) hear(s *fuzzSocket, text string) {
	frames, _ := wire.Decode([]byte(text))
	for _, f := range frames {
		nack, ok := f.(wire.Nack)
		ok = ok && nack.HasRetry
		s.bridged = s.bridged || ok || f.Type() == "drain"
		if m := d.sent[nack.ID]; ok && m != nil && m.copies == 1 {
			m.copies, m.refused = 0, true
		}
	}
}

func (d *fuzzDriver) pass(by time.Duration) {
	d.now = d.now.Add(by)
	d.handle(reconnect.Tick{})
}

func (d *fuzzDriver) send(ev reconnect.Send) {
	if d.sent[ev.ID] == nil {
		d.sent[ev.ID] = &fuzzMessage{}
		delete(d.settled, ev.ID)
	}
	d.handle(ev)
}

func (d *fuzzDriver) subscribe(name string, from wire.Want) {
	if d.streams[name] == nil {
		d.streams[name] = &from
	}
	d.handle(reconnect.Subscribe{Stream: name, From: from})
}

// tick lets the time pass until the machine wants to be told.
func (d *fuzzDriver) tick() {
	for n := 0; ; n++ {
		left, ok := d.m.Next(d.now)
		if !ok {
			return
		}
		d.now = d.now.Add(left)
		actions := d.handle(reconnect.Tick{})
		left, ok = d.m.Next(d.now)
		switch {
		case !ok || left > 0:
			return
		case len(actions) == 0:
			d.fail("a tick at the time asked for does nothing, and another one is wanted at once")
		case n > 100:
			d.fail("ticks are wanted for ever: %#v", actions)
		}
	}
}

func (d *fuzzDriver) handle(ev reconnect.Event) []reconnect.Action {
	d.t.Helper()
	actions := slices.Clone(d.m.Handle(d.now, ev))
	for _, a := range actions {
		d.act(ev, a)
	}
	d.check(ev)
	return actions
}

// check looks at what must hold between events.
func (d *fuzzDriver) check(ev reconnect.Event) {
	s := d.m.Status()
	switch ev.(type) {
	case reconnect.Sleep:
		d.asleep = s.State == reconnect.Waiting
	case reconnect.Wake:
		d.asleep = false
	}
	if s.State != reconnect.Waiting {
		d.asleep = false
	}
	left, ok := d.m.Next(d.now)
	longest := time.Hour
	switch s.State {
	case reconnect.Idle, reconnect.Ended:
		ok = true // it waits for nothing but its messages' expiry
	case reconnect.Waiting:
		ok = ok || d.asleep
	case reconnect.Connecting:
		longest = 10 * time.Second
	case reconnect.Live:
		longest = 5 * time.Second
	}
	if left < 0 || !ok || left > longest {
		d.fail("after %#v: Next = %v, %v", ev, left, ok)
	}
	welcomed, greeting := 0, 0
	for _, s := range d.sockets {
		if s.welcomed {
			welcomed++
		} else {
			greeting++
		}
	}
	switch s.State {
	case reconnect.Idle, reconnect.Waiting, reconnect.Ended:
		if welcomed+greeting > 0 {
			d.fail("after %#v: a socket is left behind", ev)
		}
	case reconnect.Connecting:
		if welcomed > 0 || greeting > 1 {
			d.fail("after %#v: %d sessions and %d dials while connecting", ev, welcomed, greeting)
		}
	case reconnect.Live:
		if welcomed != 1 || greeting > 1 {
			d.fail("after %#v: %d sessions and %d dials while live", ev, welcomed, greeting)
		}
	}
	if s.Pending != len(d.sent) {
		d.fail("after %#v: %d messages pending, want %d", ev, s.Pending, len(d.sent))
	}
}

func (d *fuzzDriver) act(ev reconnect.Event, a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.FetchURL:
		if a.Attempt <= d.attempt {
			d.fail("%#v after %d", a, d.attempt)
		}
		d.attempt = a.Attempt
	case reconnect.Dial:
		d.dial(ev, a)
	case reconnect.Write:
		d.write(a)
	case reconnect.Abandon:
		if d.sockets[a.Conn] == nil || len(a.Reason) > wire.MaxReason {
			d.fail("after %#v: %#v", ev, a)
		}
		d.drop(a.Conn)
	case reconnect.Probe:
		if !d.p.Probe || a.N != d.probes+1 {
			d.fail("%#v after %d", a, d.probes)
		}
		d.probes = a.N
	case reconnect.Deliver:
		d.deliver(ev, a)
	case reconnect.Settle:
		d.settle(ev, a)
	}
}

func (d *fuzzDriver) dial(ev reconnect.Event, a reconnect.Dial) {
	if ready, ok := ev.(reconnect.URLReady); !ok || ready.Attempt != d.attempt || a.URL != d.url || a.Conn <= d.dials {
		d.fail("after %#v: %#v: not with a fresh URL", ev, a)
	}
	for id, s := range d.sockets {
		if !s.welcomed || !s.bridged {
			d.fail("%#v while there is socket %d: %+v", a, id, *s)
		}
	}
	d.dials = a.Conn
	d.sockets[a.Conn] = &fuzzSocket{}
}

func (d *fuzzDriver) write(a reconnect.Write) {
	s := d.sockets[a.Conn]
	if s == nil || !s.opened {
		d.fail("write to socket %d, which is not open: %s", a.Conn, a.Data)
	}
	frames, err := wire.Decode(a.Data)
	if err != nil || len(frames) != 1 {
		d.fail("write of %s: %v", a.Data, err)
	}
	switch f := frames[0].(type) {
	case wire.Resume:
		if s.resumed {
			d.fail("a second resume on socket %d", a.Conn)
		}
		s.resumed = true
		return
	case wire.Msg:
		m := d.sent[f.ID]
		if m == nil {
			d.fail("write of %s, which is settled or was never sent", a.Data)
		}
		m.copies++
		m.refused = false
	case wire.Unsub:
		if f.Stream == "" {
			d.fail("an unsub of the own stream")
		}
	case wire.Sub, wire.Ping:
	default:
		d.fail("write of %s", a.Data)
	}
	if !s.welcomed {
		d.fail("write of %s before the welcome", a.Data)
	}
}

func (d *fuzzDriver) settle(ev reconnect.Event, a reconnect.Settle) {
	m := d.sent[a.ID]
	if m == nil || d.settled[a.ID] {
		d.fail("after %#v: %#v: not pending", ev, a)
	}
	if !m.refused && (a.Outcome == reconnect.NotSent && m.copies > 0 || a.Outcome == reconnect.Unknown && m.copies == 0 && a.Code != wire.NackUnknown) {
		d.fail("after %#v: %#v: written %d times", ev, a, m.copies)
	}
	delete(d.sent, a.ID)
	d.settled[a.ID] = true
}

// deliver is the application: its position moves by exactly one.
func (d *fuzzDriver) deliver(ev reconnect.Event, a reconnect.Deliver) {
	if r, ok := ev.(reconnect.Received); ok {
		if _, ok := a.Frame.(wire.Welcome); ok {
			d.sockets[r.Conn].welcomed = true
		}
	}
	switch f := a.Frame.(type) {
	case wire.Welcome:
		for name, at := range d.streams {
			answer, ok := f.Own, true
			if name != "" {
				answer, ok = f.Subs[name]
			}
			if ok {
				answered(at, answer)
			}
		}
	case wire.Subbed:
		if at := d.streams[f.Stream]; at != nil {
			answered(at, f.Answer)
		}
	case wire.Snapshot:
		if at := d.streams[f.Stream]; at != nil {
			*at = wire.Want{Has: true, After: f.Seq, Epoch: f.Epoch}
		}
	case wire.Reset:
		if at := d.streams[f.Stream]; at != nil {
			*at = wire.Want{Has: !f.Snapshot, After: f.Seq, Epoch: f.Epoch}
		}
	case wire.Event:
		d.events(f.Stream, f.Seq, 1, a)
	case wire.Events:
		d.events(f.Stream, f.From, len(f.Data), a)
	}
}

func answered(at *wire.Want, a wire.Answer) {
	switch {
	case a.Error != "":
	case a.Resync:
		at.Has = false
	case !at.Has:
		*at = wire.Want{Has: true, After: a.Seq, Epoch: a.Epoch}
	}
}

func (d *fuzzDriver) events(stream string, from uint64, n int, a reconnect.Deliver) {
	at := d.streams[stream]
	if d.p.Relay {
		return // whoever has a position checks it
	}
	if at == nil || !at.Has || a.Skip < 0 || a.Skip >= n || from+uint64(a.Skip) != at.After+1 || from+uint64(n)-1 > wire.MaxSeq {
		d.fail("%#v delivered at %+v", a, at)
	}
	at.After = from + uint64(n) - 1
}

// finish stops: nothing is left.
func (d *fuzzDriver) finish() {
	d.handle(reconnect.Stop{})
	if s := d.m.Status(); s.State != reconnect.Ended || len(d.sent) > 0 || len(d.sockets) > 0 {
		d.fail("after the end: messages %v, sockets %v", d.sent, d.live())
	}
	if left, ok := d.m.Next(d.now); ok {
		d.fail("after the end it waits for %v", left)
	}
}
