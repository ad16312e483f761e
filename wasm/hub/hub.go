package hub

import (
	"slices"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// Options say who a hub is.
type Options struct {
	// ID is the hub's own, new for each term of office, Tab that of its own tab.
	// Each 1 to 64 bytes. Without an ID the hub has no other tabs: FromChannel does
	// nothing, and there is nothing to post.
	ID  string
	Tab string
	// Others is how many other tabs there are, as far as the driver knows: so many
	// are waited for before the first connection is used, 100 ms at most. Negative:
	// not known, those 100 ms are waited.
	Others int
}

// Kind is what an [Action] wants.
type Kind uint8

// Kinds of actions.
const (
	// Tell: give Text, one frame, to the hub's own tab.
	Tell Kind = iota + 1
	// Post: post Head, Text, which is one frame, and "}" to the channel, or in Room, if
	// that is not 0: a channel beside it, which is left when the next room is posted in.
	// Several in a row of one Head and Room may go as one, with an array of the frames.
	Post
	// Do: do the action of the machine, one of Dial, Write, Abandon and Probe.
	Do
	// Ask: ask whether the lock is still held, and answer with Holds.
	Ask
)

// Action is what the driver is to do, in order. Head and Text are valid until the next
// call. Text may be the Data that came with a reconnect.Received.Frame: it stands for
// that frame.
type Action struct {
	Kind Kind
	Head []byte
	Text []byte
	Room int64
	Do   reconnect.Action
}

// Hub is the holder of a shared connection. It is not safe for concurrent use.
type Hub struct {
	m   *reconnect.Machine
	now time.Time
	out []Action
	buf []byte // what actions of this call point to

	id      string
	gen     uint64 // of the connection, or of the attempt at one
	first   uint64 // of this term of office
	head    []byte // of envelopes for all tabs
	started bool
	gone    bool // it has handed over, or was deposed

	events  []reconnect.Event // for the machine, while it is being told
	telling bool

	own     *tab
	tabs    []*tab // counted, the own one first, then as they came
	streams map[string]*stream
	senders map[string]string // ids of tabs by the ids of messages that are not settled

	live      bool // a welcome holds
	greeting  wire.Welcome
	base      bool            // the server speaks the base frames only
	asked     map[string]bool // streams that the machine asks for, or follows
	offered   string          // the session that was offered with the positions
	opened    uint64          // a socket that waits until the tabs have answered, 0: none
	resumed   bool            // the machine was told of the socket of this attempt
	answering deadline        // until when the tabs are waited for
	inherits  bool            // this is the first connection: tabs tell of the hub before
	others    int
	heardAt   time.Time // when the server was last heard
	asleep    bool

	distrust bool // a tab fell silent that may still believe in this number

	size   int    // of the message that is handled, if it is not in Data
	room   int64  // where the streams are posted
	sent   uint64 // bytes posted there, in all
	atBeat uint64 // those before the last beat

	need   need
	beat   deadline
	posted []byte // the last state that all tabs were told
	doubt  doubt

	without rule // left out by tests, which must then fail
}

// rule is one that tests can leave out.
type rule uint8

const (
	ruleRaise rule = 1 << iota // a hub outranks any number that it hears of
	ruleLease                  // a number is used up when a tab falls silent
	ruleAsked                  // an answer goes to those who asked from there
)

// New returns a hub, or an error that names every field of the policy that is
// wrong. It sets Policy.Relay.
func New(p reconnect.Policy, o Options) (*Hub, error) {
	p.Relay = true
	m, err := reconnect.NewMachine(p)
	if err != nil {
		return nil, err
	}
	h := &Hub{
		m: m, id: o.ID, others: o.Others, inherits: true,
		own:     &tab{id: o.Tab, visible: true},
		streams: make(map[string]*stream),
		senders: make(map[string]string),
		asked:   make(map[string]bool),
	}
	if o.ID == "" {
		h.others = 0
	}
	h.tabs = []*tab{h.own}
	return h, nil
}

// Policy returns the policy of the machine, with its defaults.
func (h *Hub) Policy() reconnect.Policy { return h.m.Policy() }

// Event tells the hub what the driver's sockets, probes and clocks have to say, as
// reconnect.Machine.Handle. Of its own tab it takes signals this way, and all else
// as frames.
func (h *Hub) Event(now time.Time, ev reconnect.Event) []Action {
	if h.begin(now) {
		if h.doubt.on {
			if r, ok := ev.(reconnect.Received); ok {
				r.Data = slices.Clone(r.Data)
				ev = r
			}
			h.doubt.hold(func() { h.event(ev) })
		} else {
			h.event(ev)
		}
	}
	return h.end()
}

// FromOwn takes a frame of the hub's own tab.
func (h *Hub) FromOwn(now time.Time, text []byte) []Action {
	if h.begin(now) {
		if h.doubt.on {
			text = slices.Clone(text)
			h.doubt.hold(func() { h.fromOwn(text) })
		} else {
			h.fromOwn(text)
		}
	}
	return h.end()
}

// FromChannel takes what somebody posted to the channel.
func (h *Hub) FromChannel(now time.Time, text []byte) []Action {
	if h.begin(now) && h.id != "" {
		if h.doubt.on {
			text = slices.Clone(text)
			h.doubt.hold(func() { h.fromChannel(text) })
		} else {
			h.fromChannel(text)
		}
	}
	return h.end()
}

// HandOver gives the connection up and says so to the tabs. Nothing comes after it.
// What is pending is not settled: its tabs give it to the next hub.
func (h *Hub) HandOver(now time.Time) []Action {
	if h.begin(now) {
		h.handOver()
	}
	return h.end()
}

// Resign gives the connection up without a word. Nothing comes after it.
func (h *Hub) Resign(now time.Time) []Action {
	if h.begin(now) {
		h.resign()
	}
	return h.end()
}

// Expect is Options.Others, known later.
func (h *Hub) Expect(now time.Time, others int) []Action {
	if h.begin(now) && h.inherits && h.id != "" && !h.doubt.on {
		h.others = others
		h.answered()
	}
	return h.end()
}

// Gone reports whether the hub has handed over or resigned.
func (h *Hub) Gone() bool { return h.gone }

// Next returns how long until the hub wants a Tick; false when it waits for nothing
// but events.
func (h *Hub) Next(now time.Time) (time.Duration, bool) {
	if h.gone {
		return 0, false
	}
	left, ok := time.Duration(0), false
	if h.doubt.on {
		return max(h.doubt.limit.left(now), 0), true
	}
	if machine, wants := h.m.Next(now); wants {
		left, ok = machine, true
	}
	for _, d := range []*deadline{&h.answering, &h.need.limit, &h.beat} {
		if l := d.left(now); d.on && (!ok || l < left) {
			left, ok = l, true
		}
	}
	return max(left, 0), ok
}

func (h *Hub) begin(now time.Time) bool {
	h.now, h.out = now, h.out[:0]
	if cap(h.buf) > maxKept {
		h.buf = nil
	}
	h.buf = h.buf[:0]
	if h.doubt.limit.due(now) {
		h.settleDoubt(true) // who could tell has not
	}
	return !h.gone
}

// maxKept is how much memory for texts is kept between calls.
const maxKept = 256 << 10

// end does what has become due.
func (h *Hub) end() []Action {
	if h.gone || h.doubt.on {
		return h.out
	}
	if h.need.limit.due(h.now) {
		h.need.limit.clear()
		h.askNext()
	}
	if h.beat.due(h.now) {
		h.sendBeat()
	}
	if h.answering.due(h.now) {
		h.stopWaiting()
	}
	return h.out
}

// event takes an event of the driver.
func (h *Hub) event(ev reconnect.Event) {
	switch e := ev.(type) {
	case reconnect.Opened:
		if h.m.State() != reconnect.Live { // else beside a connection that drains
			h.opened = e.Conn
			h.useOpened()
			return
		}
	case reconnect.Received:
		h.heardAt, h.size = h.now, e.Size
	case reconnect.Closed:
		if e.Conn == h.opened {
			h.opened = 0
		}
		if e.Code == wire.CloseNotNewest && h.id != "" && !h.doubt.settled {
			h.ask(func() { h.event(ev) })
			return
		}
	case reconnect.Signal:
		switch e.Kind {
		case reconnect.Visible:
			h.own.visible = true
		case reconnect.Hidden:
			h.own.visible = false
		case reconnect.Online, reconnect.Offline, reconnect.Wanted:
		}
	case reconnect.Sleep:
		h.asleep = true
	case reconnect.Wake:
		h.asleep = false
	}
	h.tell(ev)
}

// tell tells the machine, and does what it wants. What acting on it has to tell in
// turn waits until all is done.
func (h *Hub) tell(ev reconnect.Event) {
	h.events = append(h.events, ev)
	if h.telling {
		return
	}
	h.telling = true
	for i := 0; i < len(h.events); i++ {
		for _, a := range h.m.Handle(h.now, h.events[i]) {
			h.act(a)
		}
	}
	clear(h.events)
	h.events, h.telling = h.events[:0], false
}

// act does an action of the machine, or has it done.
func (h *Hub) act(a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.FetchURL:
		if h.m.State() != reconnect.Live { // else beside a connection that drains
			h.attempt()
		}
		h.wantURL(a.Attempt)
	case reconnect.Abandon:
		if a.Conn == h.opened {
			h.opened = 0
		}
		h.do(a)
	case reconnect.Dial, reconnect.Write, reconnect.Probe:
		h.do(a)
	case reconnect.Deliver:
		h.deliver(a)
	case reconnect.Settle:
		h.settle(a)
	case reconnect.Report:
		h.report(a.Status)
	case reconnect.Problem:
		h.tellFrame(wire.Problem{Text: a.Text})
	}
}

func (h *Hub) do(a reconnect.Action) { h.out = append(h.out, Action{Kind: Do, Do: a}) }

// deadline is a point in time that is judged by elapsed time.
type deadline struct {
	from  time.Time
	after time.Duration
	on    bool
}

func (d *deadline) set(now time.Time, after time.Duration) { *d = deadline{now, after, true} }
func (d *deadline) clear()                                 { *d = deadline{} }

func (d *deadline) left(now time.Time) time.Duration {
	return d.after - reconnect.Elapsed(d.from, now)
}
func (d *deadline) due(now time.Time) bool { return d.on && d.left(now) <= 0 }
