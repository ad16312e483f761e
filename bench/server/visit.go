//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/gobwas/ws"

	"github.com/longwire/longwire/wire"
)

// Visit is what one client does: a handshake, and what is said in it.
type Visit struct {
	Path string
	// Status is what the upgrade is answered, and the end of the visit if it is not
	// 101.
	Status int
	Hello  string // a text message that the client sends then
	// What is waited for: a message that contains Answer and so many events, or a
	// close with a code.
	Answer string
	Events int
	Close  ws.StatusCode
}

// position is where a client stands in what it follows, and as whom.
type position struct {
	session string
	streams map[string]wire.Want
}

// newcomer is the visit of a client that follows the streams from now on. Of
// centrifuge it follows the channel alone.
func newcomer(kind string, streams ...string) Visit {
	p := position{streams: make(map[string]wire.Want)}
	for _, name := range streams {
		p.streams[name] = wire.Want{}
	}
	return follower(kind, p, 0)
}

// follower is the visit of a client that comes back to a position of which it has
// missed so many events.
func follower(kind string, p position, missed int) Visit {
	v := Visit{Path: pathOpen, Status: 101, Events: missed}
	if kind == longwire {
		r := wire.Resume{V: wire.Version, Batch: true, Session: p.session, Subs: p.streams}
		v.Hello, v.Answer = string(r.Append(nil)), `"t":"welcome"`
		return v
	}
	subscribe := `{"channel":"` + channel + `"}`
	if want := p.streams[channel]; want.Has {
		subscribe = fmt.Sprintf(`{"channel":%q,"recover":true,"epoch":%q,"offset":%d}`, channel, want.Epoch, want.After)
	}
	v.Hello, v.Answer = `{"id":1,"connect":{}}`+"\n"+`{"id":2,"subscribe":`+subscribe+`}`, `"subscribe":{`
	return v
}

// readPosition reads where a client stands from the message with its answer.
func readPosition(kind string, msg []byte) (p position, err error) {
	if kind == longwire {
		frames, err := wire.Decode(msg)
		if err != nil {
			return p, err
		}
		for _, f := range frames {
			if w, ok := f.(wire.Welcome); ok {
				p = position{session: w.Session, streams: make(map[string]wire.Want)}
				for name, a := range w.Subs {
					p.streams[name] = wire.Want{Has: true, Epoch: a.Epoch, After: a.Seq}
				}
				return p, nil
			}
		}
		return p, errors.New("no welcome")
	}
	for line := range bytes.Lines(msg) {
		var reply struct {
			Subscribe *struct {
				Recoverable, Positioned bool
				Epoch                   string
				Offset                  uint64
			}
		}
		if err := json.Unmarshal(line, &reply); err != nil {
			return p, err
		}
		if s := reply.Subscribe; s != nil && s.Recoverable && s.Positioned {
			return position{streams: map[string]wire.Want{channel: {Has: true, Epoch: s.Epoch, After: s.Offset}}}, nil
		}
	}
	return p, fmt.Errorf("no position in %q", msg)
}

// visitor is a client that has got what it came for.
type visitor struct {
	conn   *net.TCPConn // nil if the server has ended the visit
	answer []byte       // the message with the answer
	unread []byte       // what has come after it
}

// pay makes the visit.
func (v Visit) pay(ctx context.Context, addr string) (_ *visitor, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	status := 101
	var tcp *net.TCPConn
	d := ws.Dialer{
		Header: ws.HandshakeHeaderHTTP{"Origin": {"http://" + addr}}, // as a browser has it
		NetDial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			conn, errDial := new(net.Dialer).DialContext(ctx, network, addr)
			if errDial != nil {
				return nil, errDial
			}
			tcp = conn.(*net.TCPConn)
			// Its port is free at once when it is closed. There are not that many.
			return conn, tcp.SetLinger(0)
		},
	}
	conn, early, _, err := d.Dial(ctx, "ws://"+addr+v.Path)
	defer func() {
		if err != nil && tcp != nil {
			_ = tcp.Close()
		}
	}()
	if refused, ok := errors.AsType[ws.StatusError](err); ok {
		status, err = int(refused), nil
	}
	if err != nil {
		return nil, err
	}
	if status != v.Status {
		return nil, fmt.Errorf("%s: the upgrade was answered %d", v.Path, status)
	}
	if status != 101 {
		return &visitor{}, nil // Dial has closed the connection
	}
	if early == nil {
		early = bufio.NewReader(conn)
	}
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	if v.Hello != "" {
		if err := ws.WriteFrame(conn, ws.MaskFrame(ws.NewTextFrame([]byte(v.Hello)))); err != nil {
			return nil, err
		}
	}
	c := &visitor{conn: tcp}
	if err := v.listen(c, early); err != nil {
		return nil, fmt.Errorf("%s: %w", v.Path, err)
	}
	return c, nil
}

// listen reads until the client has got what it wants.
func (v Visit) listen(c *visitor, r *bufio.Reader) error {
	events := 0
	for {
		frame, err := ws.ReadFrame(r)
		if err != nil {
			return fmt.Errorf("after %d events: %w", events, err)
		}
		if frame.Header.OpCode == ws.OpClose {
			code, reason := ws.ParseCloseFrameData(frame.Payload)
			if code != v.Close {
				return fmt.Errorf("closed with %d %s", code, reason)
			}
			err = c.conn.Close()
			c.conn = nil
			return err
		}
		events += bytes.Count(frame.Payload, []byte{mark})
		if v.Answer != "" && bytes.Contains(frame.Payload, []byte(v.Answer)) {
			c.answer = frame.Payload
		}
		if v.Close == 0 && c.answer != nil && events >= v.Events {
			if events > v.Events {
				return fmt.Errorf("%d events for %d", events, v.Events)
			}
			c.unread, err = r.Peek(r.Buffered())
			return err
		}
	}
}
