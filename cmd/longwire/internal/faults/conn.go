package faults

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// listener hands out connections that its Control can disturb.
type listener struct {
	net.Listener
	control *Control
}

func (l listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: inner, control: l.control, gone: make(chan struct{})}
	l.control.add(c)
	return c, nil
}

// A conn is a TCP connection. Until HTTP hands it over to the WebSocket handler
// it is left alone, apart from a restart.
type conn struct {
	net.Conn
	control *Control

	upgraded atomic.Bool
	muteIn   atomic.Bool
	muteOut  atomic.Bool

	// Each held for a whole call: what a direction carries is a sequence, and the
	// splitter stands at one place in it.
	readMu  sync.Mutex
	in      splitter
	early   []byte // read before a stall, delivered after it
	writeMu sync.Mutex
	out     splitter
	goodbye []byte // a close frame to be sent at the next boundary

	readBy deadline
	said   atomic.Bool // the goodbye was said: only a close frame is of interest now

	// Guarded by control.mu.
	user string // from the last request that was authenticated
	held bool   // closed for the server, open for the client

	closing sync.Once
	gone    chan struct{} // closed when the server is done with it
}

// Read delivers what the client sent, without the messages that are muted. While
// the server is stalled it blocks, and keeps what it may just have read.
func (c *conn) Read(b []byte) (int, error) {
	if !c.upgraded.Load() {
		return c.Conn.Read(b)
	}
	c.readMu.Lock()
	defer c.readMu.Unlock()
	for {
		if err := c.waitStalled(); err != nil {
			return 0, err
		}
		n, err := c.fetch(b)
		if n > 0 && c.control.stalled() != nil {
			c.early = bytes.Clone(b[:n])
			continue
		}
		kept := 0
		for rest := b[:n]; len(rest) > 0; {
			m, keep := c.in.run(rest, c.keepIn, c.control.countClose)
			if keep {
				kept += copy(b[kept:], rest[:m])
			}
			rest = rest[m:]
		}
		if kept > 0 || err != nil || len(b) == 0 {
			return kept, err
		}
	}
}

// fetch reads what was put aside, or from the socket.
func (c *conn) fetch(b []byte) (int, error) {
	if len(c.early) == 0 {
		return c.Conn.Read(b)
	}
	n := copy(b, c.early)
	c.early = c.early[n:]
	return n, nil
}

// waitStalled returns when the server may read. It fails as a read does.
func (c *conn) waitStalled() error {
	for {
		stalled := c.control.stalled()
		if stalled == nil {
			return nil
		}
		select {
		case <-stalled:
		case <-c.gone:
			return net.ErrClosed
		case <-c.readBy.passed():
			return os.ErrDeadlineExceeded
		}
	}
}

// SetReadDeadline bounds reads from the socket, and those that a stall blocks.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.readBy.set(t)
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline is SetReadDeadline and SetWriteDeadline.
func (c *conn) SetDeadline(t time.Time) error {
	c.readBy.set(t)
	return c.Conn.SetDeadline(t)
}

func (c *conn) keepIn(op byte) bool {
	return !c.muted(&c.muteIn) && (op == opClose || !c.said.Load())
}

func (c *conn) muted(direction *atomic.Bool) bool {
	if !direction.Load() {
		return false
	}
	c.control.countMuted()
	return true
}

// Write sends b without the messages that are muted or held, and says that all
// of it went out.
func (c *conn) Write(b []byte) (int, error) {
	if !c.upgraded.Load() {
		return c.Conn.Write(b)
	}
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.isGone() {
		return 0, net.ErrClosed
	}
	ignore := func(uint16) {}
	done := 0
	for done < len(b) {
		if err := c.sayGoodbye(); err != nil {
			return done, err
		}
		before := c.out
		n, keep := c.out.run(b[done:], c.keepOut, ignore)
		if keep {
			written, err := c.Conn.Write(b[done : done+n])
			if err != nil {
				// After a deadline the rest may be tried again.
				c.out = before
				c.out.run(b[done:done+written], func(byte) bool { return true }, ignore)
				return done + written, err
			}
		}
		done += n
	}
	return done, c.sayGoodbye()
}

func (c *conn) keepOut(op byte) bool {
	return !c.muted(&c.muteOut) && !c.said.Load() && (op != opClose || !c.control.holdsClose())
}

func (c *conn) isGone() bool {
	select {
	case <-c.gone:
		return true
	default:
		return false
	}
}

// sendClose sends a close frame in the server's name, after the message that it is
// writing. The server learns of it by the answer of the client.
func (c *conn) sendClose(code int, reason string) {
	payload := append(binary.BigEndian.AppendUint16(nil, uint16(code)), reason...)
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if c.goodbye != nil || c.said.Load() || c.isGone() {
		return // a second one would meet a socket that the client has closed
	}
	c.goodbye = append([]byte{0x80 | opClose, byte(len(payload))}, payload...)
	// An error means that the connection has ended already.
	_ = c.sayGoodbye()
}

// sayGoodbye needs writeMu. It does nothing in the midst of a message.
func (c *conn) sayGoodbye() error {
	if c.goodbye == nil || c.out.inMessage() {
		return nil
	}
	frame := c.goodbye
	c.goodbye = nil
	c.said.Store(true)
	if c.muted(&c.muteOut) {
		return nil
	}
	_, err := c.Conn.Write(frame)
	return err
}

// Close closes the connection, unless the client must not notice: then only the
// server is done with it, and the socket stays open and silent until the fault
// is lifted or the client leaves.
func (c *conn) Close() error {
	err := net.ErrClosed
	c.closing.Do(func() {
		close(c.gone)
		if c.control.holdBack(c) {
			go c.drain()
			err = nil
			return
		}
		c.control.remove(c)
		err = c.Conn.Close()
	})
	return err
}

// drain reads and forgets until the client closes or the socket is closed here.
func (c *conn) drain() {
	// Ends the calls that the server left behind; the lock waits for the reader.
	past := time.Unix(1, 0)
	if err := c.Conn.SetDeadline(past); err == nil {
		c.readMu.Lock()
		err = c.Conn.SetReadDeadline(time.Time{})
		c.readMu.Unlock()
		if err == nil {
			_, err = io.Copy(io.Discard, c.Conn)
		}
		if err != nil && !errors.Is(err, net.ErrClosed) {
			c.control.log.Debug("held connection ended", "err", err)
		}
	}
	c.kill(false)
}

// kill closes the socket without a word, with a RST or a FIN.
func (c *conn) kill(reset bool) {
	if tcp, ok := c.Conn.(*net.TCPConn); ok && reset {
		// An error means that it is closed already.
		_ = tcp.SetLinger(0)
	}
	_ = c.Conn.Close()
	c.closing.Do(func() { close(c.gone) })
	c.control.remove(c)
}
