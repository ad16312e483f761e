package reconnect

import (
	"errors"
	"strconv"
	"strings"

	"github.com/longwire/longwire/wire"
)

// Dialect describes a server that speaks frames of its own. It is plain data, so
// that it reaches the hub of a page. What the server sends is delivered as events
// of the session's own stream, each message whole.
type Dialect struct {
	// Hello is sent when the socket opens: a JSON template in which "$after" is
	// replaced by the number of the last event (null without one) and "$session"
	// by the session (null without one), each quotes included. Empty: nothing.
	Hello string
	// Confirm names the member that a message must have to confirm the session,
	// "type=ready" for one with that text in it. Such a message is not delivered.
	// Empty: the open socket is confirmation enough.
	Confirm string
	// Session names the member of the confirming message that names the session.
	// Empty: none.
	Session string
	// Seq names the member that numbers the messages, from 1 on; those without it
	// are not delivered, unless they are acknowledgements. Empty: messages are not
	// numbered. The client then numbers them itself and says after each reconnect
	// that there is a gap.
	Seq string
	// Message is a template for what is sent: "$id" is replaced by the id, "$body"
	// by the body, quotes included. Empty: the body as it is.
	Message string
	// Ack names the member of a message of the server that holds the id of an
	// accepted message. Empty: a message counts as accepted when the socket has
	// taken it.
	Ack string
	// Text says that messages are plain text: each is delivered as a JSON string, and
	// without Message a body that is a JSON string is sent as its text. Otherwise they
	// must be JSON. Binary messages are problems either way.
	Text bool
}

// Plain returns the dialect of any WebSocket: it is reconnected and its silence is
// noticed (Policy.IdleTimeout), but nothing can be resumed.
func Plain() *Dialect { return &Dialect{} }

// problems returns what is wrong with d.
func (d *Dialect) problems() []error {
	var errs []error
	template := func(name, text string) {
		if text != "" && !wire.Valid([]byte(text)) {
			errs = append(errs, errors.New("reconnect: Dialect."+name+": is not valid JSON"))
		}
	}
	template("Hello", d.Hello)
	template("Message", d.Message)
	if d.Message != "" && !strings.Contains(d.Message, `"$body"`) {
		errs = append(errs, errors.New(`reconnect: Dialect.Message: has no "$body"`))
	}
	if d.Ack != "" && !strings.Contains(d.Message, `"$id"`) {
		errs = append(errs, errors.New(`reconnect: Dialect.Ack: needs a Message with "$id"`))
	}
	if d.Session != "" && d.Confirm == "" {
		errs = append(errs, errors.New("reconnect: Dialect.Session: needs Confirm"))
	}
	if d.Text && (d.Seq != "" || d.Confirm != "" || d.Ack != "") {
		errs = append(errs, errors.New("reconnect: Dialect.Text: plain text has no members"))
	}
	return errs
}

// speak opens a conversation in the dialect.
func (m *Machine) speak(d *Dialect) {
	if d.Hello != "" {
		after, session := "null", "null"
		if f := m.streams[""]; f != nil && f.pos.Has {
			after = strconv.FormatUint(f.pos.After, 10)
		}
		if m.session != "" {
			session = string(wire.AppendString(nil, m.session))
		}
		m.do(Write{m.try.conn, []byte(strings.NewReplacer(`"$after"`, after, `"$session"`, session).Replace(d.Hello))})
	}
	if f := m.streams[""]; f != nil {
		f.asked, f.state, f.err = f.pos, Asking, ""
	}
	if d.Confirm == "" {
		m.understood("")
	}
}

// understood confirms a session in the dialect, as a welcome would.
func (m *Machine) understood(session string) {
	if session == "" {
		session = "dialect" // one numbering for all time
	}
	w := wire.Welcome{Session: session, Own: wire.Answer{Epoch: session}}
	f := m.streams[""]
	resumed := f != nil && f.pos.Has
	switch {
	case resumed:
		w.Own.Seq = f.pos.After // what follows is not known
		w.Own.Epoch = f.pos.Epoch
	case m.p.Dialect.Seq != "":
		// The first message says where the stream stands: it is answered then.
		w.Own = wire.Answer{Error: wire.ErrBusy}
	}
	m.fresh = true
	m.welcome(w, nil)
	if resumed && m.p.Dialect.Seq == "" {
		m.gap(f, wire.Reset{Seq: f.pos.After, Epoch: f.pos.Epoch, Reason: "this server cannot replay"}, nil)
	}
}

// foreign takes a message in the dialect.
func (m *Machine) foreign(conn uint64, data []byte) {
	d := m.p.Dialect
	if d.Text {
		data = wire.AppendString(nil, string(data))
	} else if !wire.Valid(data) {
		m.bad(conn, "message is not valid JSON")
		return
	}
	if conn == m.try.conn {
		if m.confirms(data) {
			id, _ := wire.Member(data, d.Session)
			session, _ := id.Text()
			m.understood(session)
		}
		return // said before the session was confirmed
	}
	if id, ok := wire.Member(data, d.Ack); ok && d.Ack != "" {
		if text, ok := id.Text(); ok {
			m.acked(wire.Ack{ID: text, Result: wire.Raw(data)})
			return
		}
	}
	f := m.streams[""]
	if f == nil {
		m.account.totals.Unwanted++
		return
	}
	seq := f.pos.After + 1
	if d.Seq != "" {
		number, ok := wire.Member(data, d.Seq)
		if !ok {
			return
		}
		if seq, ok = number.Uint(); !ok {
			m.bad(conn, d.Seq+": must be an integer from 0 to 2^53-1")
			return
		}
	}
	m.numbered(f, seq, data)
}

// confirms reports whether a message confirms the session.
func (m *Machine) confirms(data []byte) bool {
	name, want, compare := strings.Cut(m.p.Dialect.Confirm, "=")
	value, ok := wire.Member(data, name)
	if !ok || !compare {
		return ok
	}
	text, isText := value.Text()
	return isText && text == want || !isText && string(value) == want
}

// numbered delivers a message as the event seq.
func (m *Machine) numbered(f *follow, seq uint64, data []byte) {
	first := m.fresh
	m.fresh = false
	switch {
	case seq == 0:
		m.account.totals.Unwanted++
		return // numbers run from 1
	case !f.pos.Has:
		m.do(Deliver{Frame: wire.Subbed{Answer: wire.Answer{Seq: seq - 1, Epoch: m.session}}})
		f.pos = wire.Want{Has: true, After: seq - 1, Epoch: m.session}
		f.state = Following
	case first && seq > f.pos.After+1:
		// It was asked for what is missing, and goes on without it.
		m.gap(f, wire.Reset{Seq: seq - 1, Epoch: f.pos.Epoch, Reason: "this server did not replay what was missed"}, nil)
	}
	m.events("", seq, 1, wire.Event{Seq: seq, Data: wire.Raw(data)}, nil)
}

// message returns what is written for a message.
func (d *Dialect) message(id string, body wire.Raw) []byte {
	if d.Message == "" {
		if text, ok := body.Text(); ok && d.Text {
			return []byte(text)
		}
		return body
	}
	return []byte(strings.NewReplacer(`"$id"`, string(wire.AppendString(nil, id)), `"$body"`, string(body)).Replace(d.Message))
}
