package reconnect

import (
	"slices"
	"strconv"
	"time"

	"github.com/longwire/longwire/wire"
)

// outbox keeps every message until it is settled, in the order of the sends.
type outbox struct {
	list    []*message
	byID    map[string]*message
	bytes   int
	window  int
	solo    bool     // one message at a time: a connection was lost over one
	overdue deadline // an acknowledgement is
	// blocked: the server refuses everything until a message returns that was
	// withdrawn. Another connection is free of that.
	blocked bool
	// withdrawn: in flight on this connection when they were withdrawn. The server
	// may refuse one of them for now, and then waits for it.
	withdrawn map[string]struct{}
	hold      deadline // after a nack with retry
	first     deadline // the first expiry
}

type message struct {
	id      string
	frame   []byte
	size    int
	expires deadline

	// nacked: the server waits for it to return, on this connection.
	nacked bool
	// inFlight: written on this connection and not answered.
	inFlight bool
	// written: it may have taken effect. firstWrite and dedupe say which memory
	// of ids, and how far back, a resend relies on.
	written    bool
	copies     int // that were written since it last was not
	firstWrite time.Time
	dedupe     string
	writtenAt  time.Time // on this connection
	costs      int       // connections that a 1009 for it alone has cost
	losses     int       // connections in a row lost soon after it was written, at the head
}

// Codes of messages that were settled here.
const (
	CodeExpired    = "expired"
	CodeFull       = "outbox full"
	CodeTooBig     = "too big"
	CodeCancelled  = "cancelled"
	CodeInvalid    = "invalid"
	CodeDropped    = "dropped"     // for a newer one: Policy.Overflow
	CodeQuarantine = "quarantined" // connections do not survive it
	CodeEnded      = "ended"
)

// minNackRetry is the shortest time that a nack with retry holds the outbox back.
const minNackRetry = 100 * time.Millisecond

func (m *Machine) send(ev Send) {
	refuse := func(code, reason string) { m.do(Settle{ID: ev.ID, Outcome: NotSent, Code: code, Reason: reason}) }
	switch {
	case m.box.byID[ev.ID] != nil:
		m.problem("message " + strconv.Quote(ev.ID) + " is sent twice; the first one counts")
		return
	case !wire.ValidID(ev.ID):
		refuse(CodeInvalid, "a message id has 1 to 64 bytes")
		return
	case len(ev.Body) == 0:
		refuse(CodeInvalid, "the body is empty")
		return
	case m.state == Ended && m.cause != CauseUnauthorized:
		refuse(CodeEnded, "the client has ended: "+m.cause)
		return
	case ev.Expiry < 0:
		refuse(CodeInvalid, "the expiry is negative")
		return
	}
	msg := &message{id: ev.ID, frame: m.encode(ev), size: len(ev.Body)}
	if ev.Expiry == 0 {
		ev.Expiry = m.p.Expiry
	}
	msg.expires.set(m.now, ev.Expiry)
	if reason := m.oversize(msg); reason != "" {
		refuse(CodeTooBig, reason)
		return
	}
	if !m.room(msg.size) {
		refuse(CodeFull, strconv.Itoa(len(m.box.list))+" messages of "+strconv.Itoa(m.box.bytes)+" bytes are waiting already")
		return
	}
	m.box.list = append(m.box.list, msg)
	m.box.byID[ev.ID] = msg
	m.box.bytes += msg.size
	m.restartExpiry()
	if ev.Dedupe != "" {
		msg.written, msg.copies = true, 1
		msg.dedupe, msg.firstWrite = ev.Dedupe, m.now.Add(-max(ev.Age, 0))
		if m.conn != 0 && m.forgotten(msg, m.greeting) {
			m.giveBack(msg, wire.NackUnknown, forgottenReason)
		}
	}
}

const forgottenReason = "the server no longer remembers whether it had this message"

// forgotten reports whether a server no longer knows the id of a message that was
// written.
func (m *Machine) forgotten(msg *message, w wire.Welcome) bool {
	return msg.written && (msg.dedupe != w.DedupeID || Elapsed(msg.firstWrite, m.now).Milliseconds() >= w.DedupeMs)
}

// room reports whether a message of that size fits, and makes room if the policy
// says so and it can be made.
func (m *Machine) room(size int) bool {
	fits := func(count, bytes int) bool { return count < m.p.MaxPending && bytes+size <= m.p.MaxPendingBytes }
	if fits(len(m.box.list), m.box.bytes) {
		return true
	}
	if m.p.Overflow != DropOldest {
		return false
	}
	var drop []*message
	count, bytes := len(m.box.list), m.box.bytes
	for _, msg := range m.box.list {
		if msg.written {
			continue
		}
		drop = append(drop, msg)
		count--
		bytes -= msg.size
		if fits(count, bytes) {
			for _, old := range drop {
				m.giveBack(old, CodeDropped, "dropped for a newer message")
			}
			return true
		}
	}
	return false
}

// oversize says that a message is larger than the server takes, or nothing.
func (m *Machine) oversize(msg *message) string {
	if limit := m.greeting.MaxFrame; limit > 0 && int64(len(msg.frame)) > limit {
		return "the frame has " + strconv.Itoa(len(msg.frame)) + " bytes, the server takes " + strconv.FormatInt(limit, 10)
	}
	return ""
}

// restartExpiry finds the message that expires first.
func (m *Machine) restartExpiry() {
	m.box.first.clear()
	for _, msg := range m.box.list {
		if !m.box.first.on || msg.expires.left(m.now) < m.box.first.left(m.now) {
			m.box.first = msg.expires
		}
	}
}

// remove takes a message out.
func (m *Machine) remove(msg *message) {
	for i, other := range m.box.list {
		if other == msg {
			m.box.list = append(m.box.list[:i], m.box.list[i+1:]...)
			break
		}
	}
	delete(m.box.byID, msg.id)
	m.box.bytes -= msg.size
	if len(m.box.list) == 0 {
		m.box.solo = false
	}
	m.restartExpiry()
	m.watchAcks()
}

// giveBack settles a message that nobody answered: it was not sent, or nobody
// knows.
func (m *Machine) giveBack(msg *message, code, reason string) {
	m.box.blocked = m.box.blocked || msg.nacked
	if msg.inFlight && len(m.box.withdrawn) < m.p.MaxPending {
		if m.box.withdrawn == nil {
			m.box.withdrawn = make(map[string]struct{})
		}
		m.box.withdrawn[msg.id] = struct{}{}
	}
	outcome := NotSent
	if msg.written {
		outcome = Unknown
	}
	m.remove(msg)
	m.do(Settle{ID: msg.id, Outcome: outcome, Code: code, Reason: reason})
}

func (m *Machine) settleAll(cause string) {
	for len(m.box.list) > 0 {
		m.giveBack(m.box.list[0], CodeEnded, "the client has ended: "+cause)
	}
}

func (m *Machine) cancel(id string) {
	if msg := m.box.byID[id]; msg != nil {
		m.giveBack(msg, CodeCancelled, "withdrawn")
	}
}

func (m *Machine) expire() {
	if !m.box.first.due(m.now) {
		return
	}
	for _, msg := range slices.Clone(m.box.list) {
		if msg.expires.due(m.now) {
			m.giveBack(msg, CodeExpired, "no acknowledgement within "+msg.expires.after.String())
		}
	}
}

// reconcile decides, for each message that was written before, whether the
// server that just said welcome still remembers its id.
func (m *Machine) reconcile(w wire.Welcome) {
	m.box.window = wire.DefaultWindow
	if w.Window > 0 {
		m.box.window = int(min(w.Window, int64(m.p.MaxPending)))
	}
	for i := 0; i < len(m.box.list); {
		msg := m.box.list[i]
		switch reason := m.oversize(msg); {
		case m.forgotten(msg, w):
			m.giveBack(msg, wire.NackUnknown, forgottenReason)
		case reason != "":
			m.giveBack(msg, CodeTooBig, reason)
		default:
			i++
		}
	}
}

// disconnected ends what belongs to one connection.
func (b *outbox) disconnected() {
	b.overdue.clear()
	b.hold.clear()
	b.blocked, b.withdrawn = false, nil
	for _, msg := range b.list {
		msg.inFlight, msg.nacked = false, false
	}
}

// refusing reports whether the server, which waits for a refused message to return, has
// not answered all that was written behind it. If that one returned now, the server
// would take what is written after it before what it has yet to refuse.
func (b *outbox) refusing() bool {
	nacked, inFlight := false, false
	for _, msg := range b.list {
		if !msg.nacked && !msg.inFlight {
			break // what was written on this connection stands first
		}
		nacked, inFlight = nacked || msg.nacked, inFlight || msg.inFlight
	}
	return nacked && inFlight
}

// pump writes what the window allows, in order.
func (m *Machine) pump() {
	if m.box.hold.on && !m.box.hold.due(m.now) {
		return
	}
	m.box.hold.clear()
	if m.box.refusing() {
		return
	}
	if m.box.blocked {
		if m.try.phase == phaseNone && !m.bridge.on {
			m.bridge.set(m.now, m.uniform(m.p.Base))
		}
		return
	}
	window := m.box.window
	if m.box.solo {
		window = 1
	}
	count, bytes := 0, 0
	for _, msg := range m.box.list {
		if count >= window || count > 0 && bytes+msg.size > wire.WindowBytes {
			break
		}
		count++
		bytes += msg.size
		if msg.inFlight {
			continue
		}
		msg.inFlight, msg.nacked, msg.writtenAt = true, false, m.now
		msg.copies++
		if !msg.written {
			msg.written, msg.firstWrite, msg.dedupe = true, m.now, m.greeting.DedupeID
		}
		m.account.totals.Sent++
		m.do(Write{m.conn, msg.frame})
		if !m.box.overdue.on {
			m.watchAcks()
		}
	}
	if m.p.Dialect != nil && m.p.Dialect.Ack == "" {
		m.takeWritten()
	}
}

// encode returns what is written for a message.
func (m *Machine) encode(ev Send) []byte {
	if m.p.Dialect != nil {
		return m.p.Dialect.message(ev.ID, ev.Body)
	}
	return wire.Msg{ID: ev.ID, Body: ev.Body}.Append(nil)
}

// takeWritten accepts what was written, for a server that acknowledges nothing.
func (m *Machine) takeWritten() {
	for _, msg := range slices.Clone(m.box.list) {
		if msg.inFlight {
			m.acked(wire.Ack{ID: msg.id})
		}
	}
}

// watchAcks starts to wait for the next acknowledgement, if one is due.
func (m *Machine) watchAcks() {
	m.box.overdue.clear()
	for _, msg := range m.box.list {
		if msg.inFlight {
			m.box.overdue.set(m.now, m.p.AckTimeout)
			return
		}
	}
}

// PendingMessage is a message that is not settled.
type PendingMessage struct {
	ID      string
	Bytes   int
	Written bool // it may have taken effect
	Expires time.Time
}

// Pending returns the messages that are not settled, in order.
func (m *Machine) Pending() []PendingMessage {
	list := make([]PendingMessage, 0, len(m.box.list))
	for _, msg := range m.box.list {
		list = append(list, PendingMessage{msg.id, msg.size, msg.written, msg.expires.at()})
	}
	return list
}

func (m *Machine) acked(f wire.Ack) {
	delete(m.box.withdrawn, f.ID)
	if msg := m.box.byID[f.ID]; msg != nil {
		m.remove(msg)
		m.do(Settle{ID: f.ID, Outcome: Accepted, Result: f.Result})
	}
}

func (m *Machine) nacked(f wire.Nack) {
	msg := m.box.byID[f.ID]
	if msg == nil {
		_, waits := m.box.withdrawn[f.ID]
		m.box.blocked = m.box.blocked || waits && f.HasRetry
		delete(m.box.withdrawn, f.ID)
		return
	}
	switch {
	case f.HasRetry:
		// Not now. The server refuses what follows until this id returns.
		msg.inFlight, msg.nacked = false, true
		if msg.copies == 1 {
			// The only copy had no effect: any server may be sent it.
			msg.written, msg.copies = false, 0
		}
		m.watchAcks()
		wait := clampMs(max(f.Retry, 1), 0, minNackRetry)
		if !m.box.hold.on || m.box.hold.left(m.now) < wait {
			m.box.hold.set(m.now, wait)
		}
	case f.Code == wire.NackUnknown:
		m.remove(msg)
		m.do(Settle{ID: f.ID, Outcome: Unknown, Code: f.Code, Reason: f.Reason})
	default:
		m.remove(msg)
		m.do(Settle{ID: f.ID, Outcome: Refused, Code: f.Code, Reason: f.Reason})
	}
}
