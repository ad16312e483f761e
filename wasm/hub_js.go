package main

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/hack-pad/safejs"

	"github.com/longwire/longwire/jsbridge"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
	"github.com/longwire/longwire/wire"
)

// driver does what a hub decides, for the tab of its own page and, over a channel,
// for others. Everything that happens is put into the mailbox and handled by one
// goroutine, run, in the order in which it happened. A callback of the browser only
// ever posts: the runtime lets run have its turn before it hands control back, so
// what a page does in pagehide is done when the handler returns.
type driver struct {
	h       *hub.Hub
	probe   string
	page    page
	holds   safejs.Value      // whether the lock is held, undefined: it is
	name    string            // of the channel
	channel *jsbridge.Channel // nil: there are no other tabs
	room    *jsbridge.Channel // nil: the channel serves for all
	inRoom  int64             // what room it is
	release func()            // of the functions that the tab holds
	undo    func()            // of the listeners

	mu     sync.Mutex
	mail   []func()
	wake   chan struct{} // 1-buffered: mail is not empty
	closed bool

	// The rest belongs to run.
	sockets  map[uint64]*jsbridge.Socket
	buffered map[uint64]int // bytes not sent, at the last look
	unload   time.Time      // when the page was last about to go
	endProbe context.CancelFunc
}

func newDriver(o options, p page) (*driver, error) {
	h, err := hub.New(o.policy, o.hub)
	if err != nil {
		return nil, inPageTerms(err)
	}
	d := &driver{
		h: h, probe: o.probe, page: p, holds: o.holds,
		wake:     make(chan struct{}, 1),
		sockets:  make(map[uint64]*jsbridge.Socket),
		buffered: make(map[uint64]int),
	}
	if o.hub.ID != "" {
		d.name = o.channel
		d.channel, err = jsbridge.OpenChannel(o.channel, func(text string) {
			d.post(func() { d.do(d.h.FromChannel(time.Now(), []byte(text))) })
		})
		if err != nil {
			return nil, err
		}
	}
	d.undo, err = jsbridge.Listen(d.signal)
	if err != nil {
		d.undo = func() {} // a place without a page: there is nothing to hear
	}
	if _, visible := jsbridge.Current(); !visible {
		d.tell(reconnect.Signal{Kind: reconnect.Hidden})
	}
	return d, nil
}

// post queues fn for run. It never waits.
func (d *driver) post(fn func()) {
	d.mu.Lock()
	d.mail = append(d.mail, fn)
	d.mu.Unlock()
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// tell posts an event for the hub.
func (d *driver) tell(ev reconnect.Event) { d.post(func() { d.handle(ev) }) }

func (d *driver) take() (mail []func(), closed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	mail, d.mail = d.mail, nil
	return mail, d.closed && len(mail) == 0
}

// run is the hub's goroutine.
func (d *driver) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var rings time.Time // when the timer goes off; zero: nobody waits for it
	for {
		// What has arrived speaks before the clock does.
		mail, closed := d.take()
		if closed {
			return
		}
		for _, fn := range mail {
			fn()
			d.say()
		}
		if len(mail) > 0 {
			continue
		}
		// A timer that goes off too early does no harm, while to put one off with
		// each message costs two calls into JavaScript.
		now := time.Now()
		if wait, ok := d.h.Next(now); ok && (rings.IsZero() || now.Add(wait).Before(rings)) {
			rings = now.Add(wait)
			timer.Reset(wait)
		}
		select {
		case <-d.wake:
		case <-timer.C:
			rings = time.Time{}
			d.tick()
		}
	}
}

// tick looks at the time, and whether the browser has got rid of bytes since the
// last look: a slow uplink is not a dead one. What has arrived speaks first.
func (d *driver) tick() {
	if _, err := d.page.flush.Invoke(); err != nil {
		println("longwire: the tab failed: " + err.Error())
	}
	for conn, s := range d.sockets {
		left := s.Buffered()
		if left < d.buffered[conn] {
			d.tell(reconnect.Wrote{Conn: conn})
		}
		d.buffered[conn] = left
	}
	d.tell(reconnect.Tick{})
}

// leave gives the connection up in the way of fn, and frees everything. The mailbox
// is worked off.
func (d *driver) leave(fn func(now time.Time) []hub.Action) {
	d.post(func() {
		d.do(fn(time.Now()))
		d.say()
		if d.endProbe != nil {
			d.endProbe()
		}
		d.undo()
		if d.channel != nil {
			d.channel.Close()
		}
		if d.room != nil {
			d.room.Close()
		}
		d.release()
		d.mu.Lock()
		d.closed = true
		d.mu.Unlock()
	})
}

// close ends for good: what is pending is settled.
func (d *driver) close() {
	d.leave(func(now time.Time) []hub.Action { return d.h.Event(now, reconnect.Stop{}) })
}

// signal hands a signal of the browser on. A page that goes to sleep gives its
// socket up at once: browsers kill it, but tell nobody before the page wakes.
func (d *driver) signal(s jsbridge.Signal, persisted bool) {
	switch s {
	case jsbridge.Online:
		d.tell(reconnect.Signal{Kind: reconnect.Online})
	case jsbridge.Offline:
		d.tell(reconnect.Signal{Kind: reconnect.Offline})
	case jsbridge.Visible:
		d.tell(reconnect.Signal{Kind: reconnect.Visible})
	case jsbridge.Hidden:
		d.tell(reconnect.Signal{Kind: reconnect.Hidden})
	case jsbridge.PageHide, jsbridge.Freeze:
		d.tell(reconnect.Sleep{})
	case jsbridge.Resume:
		d.tell(reconnect.Wake{})
	case jsbridge.BeforeUnload:
		d.post(func() { d.unload = time.Now() })
	case jsbridge.PageShow:
		if persisted {
			d.tell(reconnect.Wake{})
		}
	}
}

func (d *driver) handle(ev reconnect.Event) {
	if closed, ok := ev.(reconnect.Closed); ok {
		d.forget(closed.Conn)
		if left := unloadGrace - time.Since(d.unload); left > 0 {
			d.unload = time.Time{}
			time.AfterFunc(left, func() { d.tell(ev) })
			return
		}
	}
	d.do(d.h.Event(time.Now(), ev))
}

// unloadGrace is how long nobody is told of a socket's end after the page was about
// to go. Firefox closes sockets before the page has gone: the next hub is to take
// over from one that was live, and this one not to dial for nothing.
const unloadGrace = 3 * time.Second

func (d *driver) forget(conn uint64) {
	delete(d.sockets, conn)
	delete(d.buffered, conn)
}

// do does what the hub wants, but for what it has to say.
func (d *driver) do(actions []hub.Action) {
	for _, a := range actions {
		switch a.Kind {
		case hub.Tell:
			d.page.tell(a.Text)
		case hub.Post:
			d.addPost(a)
		case hub.Ask:
			d.ask()
		case hub.Do:
			d.act(a.Do)
		}
	}
}

// say says what the hub has to say, to its own tab and to others. The tab, and through
// it frame, may be called before it returns.
func (d *driver) say() {
	d.sendPost()
	d.page.send(d.h.Doubts())
}

// channelOf returns the channel of a room. One room is posted in at a time; nothing is
// heard in it.
func (d *driver) channelOf(room int64) *jsbridge.Channel {
	if room == 0 {
		return d.channel
	}
	if room != d.inRoom {
		if d.room != nil {
			d.room.Close()
		}
		var err error
		d.inRoom = room
		d.room, err = jsbridge.OpenChannel(d.name+"/"+strconv.FormatInt(room, 10), func(string) {})
		if err != nil {
			println("longwire: " + err.Error())
		}
	}
	if d.room == nil {
		return d.channel // where only who is left behind listens: they ask for what they miss
	}
	return d.room
}

func (d *driver) act(a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.Dial:
		d.dial(a)
	case reconnect.Write:
		if s := d.sockets[a.Conn]; s != nil {
			// One that fails is closing: its close event says the rest, and what
			// was to be written waits in the machine.
			s.Send(a.Data) //nolint:errcheck // see above
		}
	case reconnect.Abandon:
		if s := d.sockets[a.Conn]; s != nil {
			d.forget(a.Conn)
			s.Abandon(a.Code, a.Reason)
		}
	case reconnect.Probe:
		d.startProbe(a.N)
	}
}

// ask asks the tab whether it still holds the lock. One that cannot tell is believed
// to.
func (d *driver) ask() {
	go func() {
		yes := true
		if d.holds.Type() == safejs.TypeFunction {
			if v, err := d.askTab(); err == nil {
				yes = v
			}
		}
		d.post(func() { d.do(d.h.Holds(time.Now(), yes)) })
	}()
}

func (d *driver) askTab() (bool, error) {
	ctx, cancel := context.WithTimeoutCause(context.Background(), hub.AskLimit, errors.New("no answer"))
	defer cancel()
	v, err := d.holds.Invoke()
	if err != nil {
		return false, err
	}
	if v, err = jsbridge.Await(ctx, v); err != nil {
		return false, err
	}
	return v.Bool()
}

func (d *driver) dial(a reconnect.Dial) {
	s, err := jsbridge.Dial(a.URL, jsbridge.SocketHandler{
		MaxMessage: d.h.Policy().MaxMessage,
		Make:       d.page.socket,
		Open:       func() { d.tell(reconnect.Opened{Conn: a.Conn}) },
		Message: func(data []byte, _ bool) {
			d.post(func() { d.receive(a.Conn, data) })
		},
		Close: func(info jsbridge.CloseInfo) {
			d.tell(reconnect.Closed{Conn: a.Conn, Code: info.Code, Reason: info.Reason})
		},
	})
	if err != nil {
		d.tell(reconnect.Closed{Conn: a.Conn, Code: wire.CloseAbnormal, Reason: err.Error()})
		return
	}
	d.sockets[a.Conn] = s
}

func (d *driver) startProbe(n uint64) {
	if d.endProbe != nil {
		d.endProbe()
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.h.Policy().ProbeTimeout)
	d.endProbe = cancel
	go func() {
		defer cancel()
		done := reconnect.ProbeDone{N: n}
		r, err := jsbridge.Probe(ctx, d.probe)
		if err != nil {
			done.Err = err.Error()
		} else {
			done.Status, done.Redirected = r.Status, r.Redirected
			done.Marker = r.Header("Longwire-Probe") == strconv.Itoa(wire.Version)
			done.RetryAfter = retryAfter(r.Header("Retry-After"))
		}
		d.tell(done)
	}()
}

// retryAfter reads the value of a Retry-After header, seconds or a date (RFC 9110
// section 10.2.3); anything else is 0. The browser reads dates already: doing that
// here would add 13 kB to the download.
func retryAfter(text string) time.Duration {
	if seconds, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(seconds) * time.Second //nolint:gosec // 31 bits
	}
	date, err := safejs.Global().Get("Date")
	if err != nil {
		return 0
	}
	v, err := date.Call("parse", text)
	if err != nil {
		return 0
	}
	ms, err := v.Float()
	if err != nil || !(ms > 0 && ms < maxNumber*1000) { // NaN is neither
		return 0
	}
	return max(time.Until(time.UnixMilli(int64(ms))), 0)
}
