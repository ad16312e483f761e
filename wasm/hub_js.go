package main

import (
	"context"
	"strconv"
	"sync"
	"time"

	"github.com/hack-pad/safejs"

	"github.com/longwire/longwire/jsbridge"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// hub drives a machine for one tab of its own page. Everything that happens is
// put into the mailbox and handled by one goroutine, run, in the order in which
// it happened. A callback of the browser only ever posts: the runtime lets run
// have its turn before it hands control back, so what a page does in pagehide
// is done when the handler returns.
type hub struct {
	m       *reconnect.Machine
	probe   string
	deliver safejs.Value
	release func() // of the functions that the tab holds
	undo    func() // of the listeners

	mu     sync.Mutex
	mail   []func()
	wake   chan struct{} // 1-buffered: mail is not empty
	closed bool

	// The rest belongs to run.
	sockets  map[uint64]*jsbridge.Socket
	buffered map[uint64]int // bytes not sent, at the last look
	endProbe context.CancelFunc
}

func newHub(o options, deliver safejs.Value) (*hub, error) {
	m, err := reconnect.NewMachine(o.policy)
	if err != nil {
		return nil, inPageTerms(err)
	}
	h := &hub{
		m: m, probe: o.probe, deliver: deliver,
		wake:     make(chan struct{}, 1),
		sockets:  make(map[uint64]*jsbridge.Socket),
		buffered: make(map[uint64]int),
	}
	h.undo, err = jsbridge.Listen(h.signal)
	if err != nil {
		h.undo = func() {} // a place without a page: there is nothing to hear
	}
	return h, nil
}

// post queues fn for run. It never waits.
func (h *hub) post(fn func()) {
	h.mu.Lock()
	h.mail = append(h.mail, fn)
	h.mu.Unlock()
	select {
	case h.wake <- struct{}{}:
	default:
	}
}

// tell posts an event for the machine.
func (h *hub) tell(ev reconnect.Event) { h.post(func() { h.handle(ev) }) }

func (h *hub) take() (mail []func(), closed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	mail, h.mail = h.mail, nil
	return mail, h.closed && len(mail) == 0
}

// run is the hub's goroutine.
func (h *hub) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var rings time.Time // when the timer goes off; zero: nobody waits for it
	for {
		// What has arrived speaks before the clock does.
		mail, closed := h.take()
		if closed {
			return
		}
		for _, fn := range mail {
			fn()
		}
		if len(mail) > 0 {
			continue
		}
		// A timer that goes off too early does no harm, while to put one off with
		// each message costs two calls into JavaScript.
		now := time.Now()
		if wait, ok := h.m.Next(now); ok && (rings.IsZero() || now.Add(wait).Before(rings)) {
			rings = now.Add(wait)
			timer.Reset(wait)
		}
		select {
		case <-h.wake:
		case <-timer.C:
			rings = time.Time{}
			h.watchUplink()
			h.tell(reconnect.Tick{})
		}
	}
}

// watchUplink tells the machine when the browser has got rid of bytes since the
// last look: a slow uplink is not a dead one.
func (h *hub) watchUplink() {
	for conn, s := range h.sockets {
		left := s.Buffered()
		if left < h.buffered[conn] {
			h.tell(reconnect.Wrote{Conn: conn})
		}
		h.buffered[conn] = left
	}
}

// close frees the hub. The connection is left, the mailbox worked off.
func (h *hub) close() {
	h.tell(reconnect.Stop{})
	h.post(func() {
		if h.endProbe != nil {
			h.endProbe()
		}
		h.undo()
		h.release()
		h.mu.Lock()
		h.closed = true
		h.mu.Unlock()
	})
}

// signal hands a signal of the browser on. A page that goes to sleep gives its
// socket up at once: browsers kill it, but tell nobody before the page wakes.
func (h *hub) signal(s jsbridge.Signal, persisted bool) {
	switch s {
	case jsbridge.Online:
		h.tell(reconnect.Signal{Kind: reconnect.Online})
	case jsbridge.Offline:
		h.tell(reconnect.Signal{Kind: reconnect.Offline})
	case jsbridge.Visible:
		h.tell(reconnect.Signal{Kind: reconnect.Visible})
	case jsbridge.Hidden:
		h.tell(reconnect.Signal{Kind: reconnect.Hidden})
	case jsbridge.PageHide, jsbridge.Freeze:
		h.tell(reconnect.Sleep{})
	case jsbridge.Resume:
		h.tell(reconnect.Wake{})
	case jsbridge.PageShow:
		if persisted {
			h.tell(reconnect.Wake{})
		}
	}
}

// send gives the tab a frame. It may call fromTab before it returns.
func (h *hub) send(text string) {
	if _, err := h.deliver.Invoke(text); err != nil {
		println("longwire: the tab failed: " + err.Error())
	}
}

func (h *hub) sendFrame(f wire.Frame) { h.send(string(f.Append(nil))) }

func (h *hub) handle(ev reconnect.Event) {
	if closed, ok := ev.(reconnect.Closed); ok {
		h.forget(closed.Conn)
	}
	for _, a := range h.m.Handle(time.Now(), ev) {
		h.act(a)
	}
}

func (h *hub) forget(conn uint64) {
	delete(h.sockets, conn)
	delete(h.buffered, conn)
}

func (h *hub) act(a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.FetchURL:
		h.sendFrame(wire.Need{N: a.Attempt, What: "url"})
	case reconnect.Dial:
		h.dial(a)
	case reconnect.Write:
		if s := h.sockets[a.Conn]; s != nil {
			// One that fails is closing: its close event says the rest, and what
			// was to be written waits in the machine.
			s.Send(a.Data) //nolint:errcheck // see above
		}
	case reconnect.Abandon:
		if s := h.sockets[a.Conn]; s != nil {
			h.forget(a.Conn)
			s.Abandon(a.Code, a.Reason)
		}
	case reconnect.Probe:
		h.startProbe(a.N)
	case reconnect.Deliver:
		if a.Text != nil {
			h.send(string(a.Text))
		} else {
			h.sendFrame(a.Frame)
		}
	case reconnect.Settle:
		h.settle(a)
	case reconnect.Report:
		h.report(a.Status, false)
	case reconnect.Problem:
		h.sendFrame(wire.Problem{Text: a.Text})
	}
}

func (h *hub) dial(a reconnect.Dial) {
	s, err := jsbridge.Dial(a.URL, jsbridge.SocketHandler{
		MaxMessage: h.m.Policy().MaxMessage,
		Open: func() {
			h.post(func() {
				// The tab says where it stands; its answer is posted before it
				// returns, and so is handled before Opened.
				h.report(h.m.Status(), true)
				h.tell(reconnect.Opened{Conn: a.Conn})
			})
		},
		Message: func(data []byte, binary bool) {
			h.tell(reconnect.Received{Conn: a.Conn, Data: data, Binary: binary})
		},
		Close: func(info jsbridge.CloseInfo) {
			h.tell(reconnect.Closed{Conn: a.Conn, Code: info.Code, Reason: info.Reason})
		},
	})
	if err != nil {
		h.tell(reconnect.Closed{Conn: a.Conn, Code: wire.CloseAbnormal, Reason: err.Error()})
		return
	}
	h.sockets[a.Conn] = s
}

func (h *hub) startProbe(n uint64) {
	if h.endProbe != nil {
		h.endProbe()
	}
	ctx, cancel := context.WithTimeout(context.Background(), h.m.Policy().ProbeTimeout)
	h.endProbe = cancel
	go func() {
		defer cancel()
		done := reconnect.ProbeDone{N: n}
		r, err := jsbridge.Probe(ctx, h.probe)
		if err != nil {
			done.Err = err.Error()
		} else {
			done.Status, done.Redirected = r.Status, r.Redirected
			done.Marker = r.Header("Longwire-Probe") == strconv.Itoa(wire.Version)
			done.RetryAfter = retryAfter(r.Header("Retry-After"))
		}
		h.tell(done)
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

// settle tells the tab what became of a message.
func (h *hub) settle(a reconnect.Settle) {
	if a.Outcome == reconnect.Accepted {
		h.sendFrame(wire.Ack{ID: a.ID, Result: a.Result})
		return
	}
	f := wire.Nack{ID: a.ID, Code: a.Code, Reason: a.Reason}
	if a.Outcome != reconnect.Refused {
		f.Outcome = a.Outcome.String()
	}
	h.sendFrame(f)
}

// report tells the tab where the connection stands; with resume the tab is to
// answer with its positions.
func (h *hub) report(s reconnect.Status, resume bool) {
	f := wire.HubState{
		State: s.State.String(), Cause: s.Cause, Reason: s.Reason, Hint: s.Hint, Resume: resume,
		Attempt: int64(s.Attempt), Since: epochMs(s.Since), NextRetry: epochMs(s.NextRetry), NotBefore: epochMs(s.Floor),
		Session: s.Session, User: s.User, Interrupted: s.Interrupted, Totals: totals(h.m.Totals()),
	}
	if s.LastClose != nil {
		f.HasClose, f.Code, f.Closed = true, int64(s.LastClose.Code), s.LastClose.Reason
	}
	h.sendFrame(f)
}

// totals writes the totals as a JSON object.
func totals(t reconnect.Totals) wire.Raw {
	b := []byte{'{'}
	for _, f := range []struct {
		name  string
		value uint64
	}{
		{"attempts", t.Attempts},
		{"sessions", t.Sessions},
		{"bridges", t.Bridges},
		{"probes", t.Probes},
		{"unwanted", t.Unwanted},
		{"bad", t.Bad},
		{"sent", t.Sent},
		{"bytesIn", t.BytesIn},
		{"bytesOut", t.BytesOut},
	} {
		b = append(b, '"')
		b = append(b, f.name...)
		b = append(b, '"', ':')
		b = strconv.AppendUint(b, f.value, 10)
		b = append(b, ',')
	}
	b = append(b, `"recovery":[`...)
	for i, n := range t.Recovery.Counts {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, n, 10)
	}
	return append(b, ']', '}')
}

func epochMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
