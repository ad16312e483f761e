//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"github.com/gobwas/ws"
)

// watch reads what many clients get. One thread with an epoll does it all: a
// goroutine for each would use a multiple of the CPU time, which is then missing
// where it is measured.
type watch struct {
	epoll      int
	clients    []client
	receipts   *os.File
	buf        []byte
	control    []byte // what comes beside it
	askForPong []byte // the text by which the server asks for a pong, nil: none

	// reached counts, for an event modulo its length, the clients that have got it.
	// All have got those up to done.
	reached [4096]int
	arrived [4096]int64 // when the kernel had it for the last of them
	done    uint64
}

// client is one connection, and how far it has been read.
type client struct {
	fd     int
	header []byte // the part of one that has come
	left   int    // bytes of the frame behind it
	last   byte   // the one before those
	events uint64
}

// newWatch takes the connections over.
func newWatch(kind string, visitors []*visitor, receipts *os.File) (*watch, error) {
	epoll, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	w := &watch{epoll: epoll, clients: make([]client, len(visitors)), receipts: receipts, buf: make([]byte, 256<<10), control: make([]byte, 64)}
	if kind == centrifuge {
		w.askForPong = []byte("{}")
	}
	for i, v := range visitors {
		c := &w.clients[i]
		if c.fd, err = detach(v.conn); err != nil {
			return nil, err
		}
		if err := w.feed(c, v.unread, time.Now().UnixNano()); err != nil {
			return nil, err
		}
		if err := syscall.SetsockoptInt(c.fd, syscall.SOL_SOCKET, syscall.SO_TIMESTAMPNS, 1); err != nil {
			return nil, fmt.Errorf("SO_TIMESTAMPNS: %w", err)
		}
		event := syscall.EpollEvent{Events: syscall.EPOLLIN, Fd: int32(i)} //nolint:gosec // an index
		if err := syscall.EpollCtl(epoll, syscall.EPOLL_CTL_ADD, c.fd, &event); err != nil {
			return nil, fmt.Errorf("epoll: %w", err)
		}
	}
	return w, nil
}

// detach takes the connection away from the Go runtime, which would watch it too.
func detach(conn syscall.Conn) (fd int, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	errControl := raw.Control(func(own uintptr) { fd, err = syscall.Dup(int(own)) })
	return fd, errors.Join(errControl, err, conn.(io.Closer).Close())
}

// run reads until a connection fails, and ends the receipts then.
func (w *watch) run() {
	err := w.read()
	fmt.Fprintln(os.Stderr, "bench-server: crowd:", err)
	_ = w.receipts.Close() // which tells the host
}

func (w *watch) read() error {
	events := make([]syscall.EpollEvent, 1024)
	for {
		n, err := syscall.EpollWait(w.epoll, events, -1)
		if err != nil && !errors.Is(err, syscall.EINTR) {
			return fmt.Errorf("epoll: %w", err)
		}
		for _, e := range events[:max(n, 0)] {
			c := &w.clients[e.Fd]
			n, at, err := w.receive(c.fd)
			switch {
			case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR):
			case err != nil:
				return fmt.Errorf("client %d, after %d events: %w", e.Fd, c.events, err)
			case n == 0:
				return fmt.Errorf("client %d, after %d events: the server has closed the connection", e.Fd, c.events)
			default:
				if err := w.feed(c, w.buf[:n], at); err != nil {
					return fmt.Errorf("client %d, after %d events: %w", e.Fd, c.events, err)
				}
			}
		}
	}
}

// receive reads what has come, and when the kernel got the last of it (ns since 1970).
// For a moment after it was first asked to, the kernel does not say that: then it is
// now, which is later.
func (w *watch) receive(fd int) (n int, at int64, err error) {
	n, size, _, _, err := syscall.Recvmsg(fd, w.buf, w.control, 0)
	if err != nil || n == 0 {
		return n, 0, err
	}
	at, ok := arrival(w.control[:size])
	if !ok {
		at = time.Now().UnixNano()
	}
	return n, at, nil
}

// arrival reads the control message of SO_TIMESTAMPNS, which is the only one: its
// length, level and type, and the seconds and nanoseconds, of 64 bits each.
func arrival(control []byte) (ns int64, ok bool) {
	order := binary.NativeEndian
	if len(control) != 32 || order.Uint32(control[8:]) != syscall.SOL_SOCKET || order.Uint32(control[12:]) != syscall.SCM_TIMESTAMPNS {
		return 0, false
	}
	return time.Unix(int64(order.Uint64(control[16:])), int64(order.Uint64(control[24:]))).UnixNano(), true //nolint:gosec // as the kernel has them
}

// feed takes in what has come for a client, however it was cut, and had arrived at a
// time.
func (w *watch) feed(c *client, p []byte, at int64) error {
	before := c.events
	for len(p) > 0 {
		if c.left > 0 {
			n := min(c.left, len(p))
			if err := w.content(c, p[:n]); err != nil {
				return err
			}
			c.left -= n
			p = p[n:]
			continue
		}
		c.header = append(c.header, p[0])
		p = p[1:]
		length, ok := frameLength(c.header)
		if !ok {
			continue
		}
		opcode := ws.OpCode(c.header[0] & 0x0f)
		c.header, c.left, c.last = c.header[:0], length, 0
		if opcode == ws.OpClose {
			return errors.New("the server said goodbye")
		}
		if opcode == ws.OpPing { // without a payload, from both servers
			if err := c.send(ws.NewPongFrame(nil)); err != nil {
				return err
			}
		}
	}
	return w.count(before, c.events, at)
}

// frameLength reads the length of a frame from its header, which a server does not
// mask; ok is false while bytes of it are missing.
func frameLength(header []byte) (length int, ok bool) {
	if len(header) < 2 {
		return 0, false
	}
	rest := header[2:]
	switch n := int(header[1]); {
	case n < 126:
		return n, true
	case n == 126 && len(rest) == 2:
		return int(binary.BigEndian.Uint16(rest)), true
	case n == 127 && len(rest) == 8:
		return int(binary.BigEndian.Uint64(rest)), true //nolint:gosec // a length
	}
	return 0, false
}

// content takes in a piece of a frame.
func (w *watch) content(c *client, p []byte) error {
	c.events += uint64(bytes.Count(p, []byte{mark})) //nolint:gosec // a count
	if w.askForPong == nil {
		return nil
	}
	if bytes.Contains(p, w.askForPong) || c.last == w.askForPong[0] && p[0] == w.askForPong[1] {
		if err := c.send(ws.NewTextFrame(w.askForPong)); err != nil {
			return err
		}
	}
	c.last = p[len(p)-1]
	return nil
}

// send writes a small frame. There is room for it: it is the only one.
func (c *client) send(f ws.Frame) error {
	frame, err := ws.CompileFrame(ws.MaskFrame(f))
	if err == nil {
		_, err = syscall.Write(c.fd, frame)
	}
	return err
}

// count notes that one more client has got the events above before, up to last, and
// tells the host when it was the last one.
func (w *watch) count(before, last uint64, at int64) error {
	size := uint64(len(w.reached))
	if last > w.done+size {
		return errors.New("too far ahead of the slowest client")
	}
	for event := before + 1; event <= last; event++ {
		w.reached[event%size]++
		w.arrived[event%size] = max(w.arrived[event%size], at)
	}
	done, arrived := w.done, int64(0)
	for w.reached[(done+1)%size] == len(w.clients) {
		done++
		arrived = w.arrived[done%size]
		w.reached[done%size], w.arrived[done%size] = 0, 0
	}
	if done == w.done {
		return nil
	}
	w.done = done
	text, err := binary.Append(nil, binary.NativeEndian, receipt{Event: done, At: time.Now().UnixNano(), Arrived: arrived})
	if err == nil {
		_, err = w.receipts.Write(text)
	}
	return err
}
