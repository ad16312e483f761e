package hub_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/longwire/longwire/wire"
)

// kept is how many events a log of the model keeps.
const kept = 3

// log is a stream of the model: events 1 to head, of which the last few are kept.
type log struct {
	epoch     string
	head      uint64
	snapshots bool
}

func (l *log) first() uint64 { return l.head - min(kept, l.head) }

func (l *log) covers(p wire.Want) bool {
	return p.Has && p.Epoch == l.epoch && l.first() <= p.After && p.After <= l.head
}

func (l *log) answer(resync bool) wire.Answer {
	return wire.Answer{Seq: l.head, Epoch: l.epoch, First: l.first(), Resync: resync}
}

// server is the model of one: logs, sessions, and a memory of message ids.
type server struct {
	w        *world
	run      int // a restart begins a new one
	epochs   int
	logs     map[string]*log     // named streams
	own      map[string]*log     // by session
	sessions map[string]*session // by id
	remember map[string]bool     // ids of messages that were handled
	effects  map[string]int      // how often each message took effect, ever
	order    []string            // in which they did
}

type session struct {
	id   string
	gen  uint64
	conn *conn
}

func newServer(w *world) *server {
	s := &server{w: w, logs: make(map[string]*log), own: make(map[string]*log), effects: make(map[string]int)}
	for _, name := range w.names {
		if name != "" {
			s.logs[name] = &log{epoch: s.mint(), snapshots: name != "b"}
		}
	}
	s.forget()
	return s
}

func (s *server) mint() string {
	s.epochs++
	return fmt.Sprint("e", s.epochs)
}

// forget loses what lives in memory.
func (s *server) forget() {
	s.run++
	s.sessions = make(map[string]*session)
	s.own = make(map[string]*log)
	s.remember = make(map[string]bool)
}

// conn is one connection. Its two queues are the network.
type conn struct {
	s       *server
	id      uint64
	driver  *driver
	opened  bool
	session *session
	cursors map[string]*cursor
	in      []string // from the client
	out     []string // to it
	closed  bool
	drained bool
	held    string // a message that was refused for now, "": none
}

// cursor is where a connection stands in a stream.
type cursor struct {
	at   uint64
	has  bool
	owed bool // a snapshot or a reset
}

func (c *conn) send(f wire.Frame) { c.out = append(c.out, string(f.Append(nil))) }

// close ends the connection with a code: what was sent before may be lost with it.
func (c *conn) close(code int, reason string) {
	if c.closed {
		return
	}
	c.closed = true
	if c.session != nil && c.session.conn == c {
		c.session.conn = nil
	}
	c.driver.cut(c, code, reason)
}

func (c *conn) log(name string) *log {
	if name == "" {
		return c.s.own[c.session.id]
	}
	return c.s.logs[name]
}

// read handles one frame of the client.
func (c *conn) read() {
	text := c.in[0]
	c.in = c.in[1:]
	frames, err := wire.Decode([]byte(text))
	if err != nil {
		c.s.w.fail("the server got %s: %v", text, err)
		return
	}
	switch f := frames[0].(type) {
	case wire.Resume:
		c.resume(f)
	case wire.Sub:
		a := c.ask(f.Stream, f.Want)
		c.send(wire.Subbed{Stream: f.Stream, Answer: a})
	case wire.Unsub:
		delete(c.cursors, f.Stream)
	case wire.Msg:
		c.message(f)
	case wire.Ping:
		c.send(wire.Pong(f))
	default:
		c.s.w.fail("the server got %s", text)
	}
}

// message handles one, or refuses it for now, and those behind it until it returns.
func (c *conn) message(f wire.Msg) {
	if c.held != "" && c.held != f.ID || c.s.w.r.IntN(6) == 0 {
		c.held = cmp.Or(c.held, f.ID)
		c.send(wire.Nack{ID: f.ID, Code: wire.NackBusy, HasRetry: true, Retry: 100})
		return
	}
	c.held = ""
	if !c.s.remember[f.ID] {
		c.s.remember[f.ID] = true
		c.s.effects[f.ID]++
		c.s.order = append(c.s.order, f.ID)
	}
	c.send(wire.Ack{ID: f.ID})
}

func (c *conn) resume(f wire.Resume) {
	s := c.s.sessions[f.Session]
	if s == nil {
		s = &session{id: fmt.Sprintf("s%d.%d", c.s.run, len(c.s.sessions)+1)}
		c.s.sessions[s.id] = s
		c.s.own[s.id] = &log{epoch: c.s.mint()}
	}
	if s.conn != nil && f.Gen <= s.gen {
		c.close(wire.CloseNotNewest, wire.GenReason(s.gen))
		return
	}
	old := s.conn
	s.gen, s.conn, c.session = f.Gen, c, s
	if old != nil {
		old.close(wire.CloseNotNewest, wire.GenReason(s.gen))
	}
	w := wire.Welcome{
		V: 1, Session: s.id, Gen: f.Gen, User: "ada", Heartbeat: 600_000, Spread: 1, Window: 4,
		DedupeID: fmt.Sprint("d", c.s.run), DedupeMs: 600_000, Subs: make(map[string]wire.Answer), Own: c.ask("", f.Own),
	}
	for _, name := range slices.Sorted(maps.Keys(f.Subs)) {
		w.Subs[name] = c.ask(name, f.Subs[name])
	}
	c.send(w)
}

// ask answers what is wanted of a stream.
func (c *conn) ask(name string, want wire.Want) wire.Answer {
	l := c.log(name)
	cur := c.cursors[name]
	if cur == nil {
		cur = &cursor{}
		c.cursors[name] = cur
	}
	switch {
	case l.covers(want):
		cur.place(want.After)
		return l.answer(false)
	case !want.Has && !l.snapshots:
		cur.place(l.head)
		return l.answer(false)
	}
	cur.owed = true
	return l.answer(true)
}

func (c *cursor) place(at uint64) {
	if !c.has || at < c.at {
		c.at, c.has = at, true
	}
}

// pay sends the snapshot or reset that is owed.
func (c *conn) pay(name string) {
	cur, l := c.cursors[name], c.log(name)
	cur.owed = false
	if l.snapshots {
		c.send(wire.Snapshot{HasSeq: true, Seq: l.head, Epoch: l.epoch, Stream: name, State: wire.Raw(fmt.Sprintf(`"%s:%d"`, l.epoch, l.head))})
	} else {
		c.send(wire.Reset{Stream: name, Seq: l.head, Epoch: l.epoch, First: l.first(), Reason: "gap"})
	}
	cur.place(l.head)
}

// write sends the next event or two of a stream.
func (c *conn) write(name string) {
	cur, l := c.cursors[name], c.log(name)
	if cur.at < l.first() {
		c.fall(name)
		return
	}
	if cur.at+1 < l.head && c.s.w.r.IntN(2) == 0 {
		c.send(wire.Events{From: cur.at + 1, Stream: name, Data: []wire.Raw{event(l.epoch, cur.at+1), event(l.epoch, cur.at+2)}})
		cur.at += 2
		return
	}
	cur.at++
	c.send(wire.Event{Seq: cur.at, Stream: name, Data: event(l.epoch, cur.at)})
}

// event is a payload that says what numbering it is of.
func event(epoch string, seq uint64) wire.Raw { return wire.Raw(fmt.Sprintf(`"%s:%d"`, epoch, seq)) }

// fall says that a stream has a gap.
func (c *conn) fall(name string) {
	cur, l := c.cursors[name], c.log(name)
	*cur = cursor{}
	if l.snapshots {
		cur.owed = true
		c.send(wire.Reset{Stream: name, Seq: l.head, Epoch: l.epoch, First: l.first(), Snapshot: true, Reason: "gap"})
		return
	}
	c.send(wire.Reset{Stream: name, Seq: l.head, Epoch: l.epoch, First: l.first(), Reason: "gap"})
	cur.place(l.head)
}

// moves are what the server may do next on a connection.
func (c *conn) moves(m []func()) []func() {
	if c.closed || !c.opened {
		return m
	}
	if len(c.in) > 0 {
		m = append(m, c.read)
	}
	for _, name := range c.s.w.names {
		cur := c.cursors[name]
		switch {
		case cur == nil:
		case cur.owed:
			m = append(m, func() { c.pay(name) })
		case cur.has && cur.at < c.log(name).head:
			m = append(m, func() { c.write(name) })
		}
	}
	return m
}

// publish appends an event to one log.
func (s *server) publish() {
	all := slices.Collect(maps.Values(s.logs))
	all = append(all, slices.Collect(maps.Values(s.own))...)
	slices.SortFunc(all, func(a, b *log) int { return cmp.Compare(a.epoch, b.epoch) })
	if len(all) > 0 {
		all[s.w.r.IntN(len(all))].head++
	}
}

// restart loses everything; numbering starts anew.
func (s *server) restart() {
	s.forget()
	for _, name := range s.w.names {
		if name != "" {
			*s.logs[name] = log{epoch: s.mint(), head: s.w.r.Uint64N(4), snapshots: s.logs[name].snapshots}
		}
	}
	for _, c := range slices.Clone(s.w.conns) {
		c.close(wire.CloseAbnormal, "")
	}
}

// renumber begins a new epoch of a stream under live connections.
func (s *server) renumber(name string) {
	l := s.logs[name]
	l.epoch, l.head = s.mint(), s.w.r.Uint64N(4)
	for _, c := range slices.Clone(s.w.conns) {
		if !c.closed && c.cursors[name] != nil {
			c.fall(name)
		}
	}
}
