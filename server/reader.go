package server

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

// buffers hold messages while they are taken apart.
var buffers = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// readMessage reads one text message of at most limit bytes and gives it to use,
// which must not keep it. The error is a *closing, or one of the connection.
func (c *conn) readMessage(limit int64, use func(msg []byte) error) error {
	// The context must not end: the library would close the connection for it.
	kind, r, err := c.ws.Reader(context.Background())
	if err != nil {
		return err
	}
	if kind != websocket.MessageText {
		return &closing{wire.CloseUnsupported, "binary message: only text is spoken", deniedBadHello}
	}
	buf := buffers.Get().(*bytes.Buffer)
	defer func() {
		if buf.Cap() <= 2*wire.MaxClientFrame {
			buf.Reset()
			buffers.Put(buf)
		}
	}()
	if _, err := buf.ReadFrom(io.LimitReader(r, limit+1)); err != nil {
		return err
	}
	if int64(buf.Len()) > limit {
		return &closing{wire.CloseTooBig, "message larger than " + strconv.FormatInt(limit, 10) + " bytes", deniedBadHello}
	}
	return use(buf.Bytes())
}

// decode reads the one frame of a client's message.
func decode(msg []byte) (wire.Frame, error) {
	if !utf8.Valid(msg) {
		return nil, &closing{wire.CloseInvalidUTF8, "message is not valid UTF-8", deniedBadHello}
	}
	if text := bytes.TrimLeft(msg, " \t\r\n"); len(text) > 0 && text[0] == '[' {
		return nil, badFrame("message is an array: a client sends one frame each")
	}
	frames, err := wire.Decode(msg)
	if err != nil {
		return nil, badFrame(strings.TrimPrefix(err.Error(), "wire: "))
	}
	return frames[0], nil
}

// readLoop takes frames apart and hands them on. It runs nothing that could take
// long, and stays shallow: its stack lives as long as the connection.
func (c *conn) readLoop() {
	var err error
	for err == nil && c.waitForRoom() {
		err = c.readMessage(wire.MaxClientFrame, c.take)
	}
	if f, ok := errors.AsType[*closing](err); ok {
		c.fail(f)
	}
	side, code := c.ending(err)
	c.s.counters.closed[side][code].Add(1)
	if !c.isClosing() { // else the writer needs the socket for its goodbye
		c.end()
		_ = c.ws.CloseNow() // releases what the library holds
	}
}

// fail closes the connection for what the client did.
func (c *conn) fail(f *closing) {
	c.s.counters.malformed.Add(1)
	c.s.log.Debug("longwire: malformed frame", "code", f.code, "reason", f.reason)
	c.close(&closing{code: f.code, reason: f.reason})
}

// waitForRoom waits until another frame can be taken in. It reports false when the
// connection takes none any more.
func (c *conn) waitForRoom() bool {
	for !c.hasRoom() {
		c.paused.Store(true)
		select {
		case <-c.room:
		case <-c.stop:
		}
		c.sock.hear() // the silence until now was ours
		c.paused.Store(false)
		if !c.isOpen() {
			return false
		}
	}
	return c.isOpen()
}

// take hands on the frame of a message after the first.
func (c *conn) take(msg []byte) error {
	frame, err := decode(msg)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.bye != nil || c.ended {
		return nil // superseded, or on its way out: its frames do nothing
	}
	switch f := frame.(type) {
	case wire.Msg:
		if c.retiring != nil {
			c.putOff(f)
			return nil
		}
		c.s.handling.Add(1)
		f.Body = bytes.Clone(f.Body)
		c.msgBytes += len(f.Body)
		enter(c, &c.msgs, f, c.handle)
	case wire.Ping:
		c.answerLocked(wire.Pong(f))
	case wire.Sub:
		enter(c, &c.subs, func() { c.subscribe(f) }, call)
	case wire.Unsub:
		if f.Stream == "" {
			return badFrame("unsub: stream: missing")
		}
		enter(c, &c.subs, func() { c.unsubscribe(f) }, call)
	case wire.Resume:
		return badFrame("resume: a second one on this connection")
	case wire.Unknown:
		// Of a later version.
	default:
		return badFrame(frame.Type() + ": not a frame of a client")
	}
	return nil
}
