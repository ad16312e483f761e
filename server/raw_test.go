package server_test

import (
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// rawClient is a connection below the WebSocket: it sends what bytes it is given and
// answers nothing. What the server sends is read strictly.
type rawClient struct {
	t    *testing.T
	conn *rawConn
	done chan struct{} // closed when the server's side has ended

	// Once done.
	code   int // of the close frame, 0: there was none
	reason string
}

// raw upgrades, with further header lines, and sends hello as a frame.
func (w *world) raw(hello string, header ...string) *rawClient {
	w.t.Helper()
	c := w.upgrade(header...)
	c.write(maskedFrame(text, hello))
	synctest.Wait()
	return c
}

// upgrade sends what comes before the first frame.
func (w *world) upgrade(header ...string) *rawClient {
	w.t.Helper()
	c := &rawClient{t: w.t, conn: w.rawDial(""), done: make(chan struct{})}
	c.conn.rude = true
	go c.read()
	c.write("GET /ws HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n" +
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n" + strings.Join(append(header, "\r\n"), "\r\n"))
	return c
}

// write fails when the server has closed, which may well be.
func (c *rawClient) write(b string) { _, _ = io.WriteString(c.conn, b) }

// ended waits until the server has closed the connection, a minute at most.
func (c *rawClient) ended() {
	c.t.Helper()
	timer := time.NewTimer(time.Minute)
	defer timer.Stop()
	select {
	case <-c.done:
	case <-timer.C:
		c.t.Fatal("the connection is still there after a minute")
	}
}

func (c *rawClient) read() {
	defer close(c.done)
	res, err := http.ReadResponse(c.conn.r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		c.t.Errorf("upgrade: %v, %v", res, err)
		return
	}
	_ = res.Body.Close()
	for c.conn.code == 0 {
		if _, err := c.conn.read(); err != nil {
			cut := []error{io.EOF, io.ErrUnexpectedEOF, syscall.ECONNRESET, net.ErrClosed} // as who is dropped may be
			if !slices.ContainsFunc(cut, func(e error) bool { return errors.Is(err, e) }) {
				c.t.Error(err)
			}
			return
		}
	}
	c.code, c.reason = c.conn.code, c.conn.reason
}

// What the first byte of a frame says.
const (
	text      = 0x81 // whole
	textBegin = 0x01
	textEnd   = 0x80
	closing   = 0x88
	ping      = 0x89
	pong      = 0x8a
)

// maskedFrame is a frame of a client, under a mask of zeros, so that the payload can be
// read in it. first holds the flags and the opcode.
func maskedFrame(first byte, payload string) string {
	const masked = 0x80
	frame := []byte{first}
	switch n := len(payload); {
	case n < 126:
		frame = append(frame, masked|byte(n))
	case n < 1<<16:
		frame = binary.BigEndian.AppendUint16(append(frame, masked|126), uint16(n))
	default:
		frame = binary.BigEndian.AppendUint64(append(frame, masked|127), uint64(n))
	}
	return string(append(frame, 0, 0, 0, 0)) + payload
}
