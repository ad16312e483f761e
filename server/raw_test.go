package server_test

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/wire"
)

// rawClient is a connection below the WebSocket: it sends what bytes it is given and
// answers nothing. What the server sends is read strictly.
type rawClient struct {
	t    *testing.T
	conn net.Conn
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
	conn, err := w.net.DialContext(w.t.Context(), "tcp", "host")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	c := &rawClient{t: w.t, conn: conn, done: make(chan struct{})}
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
	r := bufio.NewReader(c.conn)
	res, err := http.ReadResponse(r, nil)
	if err != nil || res.StatusCode != http.StatusSwitchingProtocols {
		c.t.Errorf("upgrade: %v, %v", res, err)
		return
	}
	_ = res.Body.Close()
	for c.code == 0 {
		if err := c.frame(r); err != nil {
			if err != io.EOF { //nolint:errorlint // at the border of two frames
				c.t.Logf("cut: %v", err) // as who is dropped may be
			}
			return
		}
	}
	if rest, _ := io.ReadAll(r); len(rest) > 0 {
		c.t.Errorf("%d bytes after the close frame", len(rest))
	}
}

// frame reads one frame of the server's, which must be whole and without a mask.
func (c *rawClient) frame(r io.Reader) error {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return err
	}
	size := uint64(head[1])
	for marker, bytes := range map[byte]int{126: 2, 127: 8} {
		if head[1] == marker {
			var long [8]byte
			if _, err := io.ReadFull(r, long[8-bytes:]); err != nil {
				return fmt.Errorf("within a header: %w", err)
			}
			size = binary.BigEndian.Uint64(long[:])
		}
	}
	if head[1]&0x80 != 0 || size > wire.MaxServerFrame {
		c.t.Errorf("frame header % x, %d bytes", head, size)
	}
	payload := make([]byte, size)
	if _, err := io.ReadFull(r, payload); err != nil {
		return fmt.Errorf("within a frame: %w", err)
	}
	switch head[0] {
	case text:
		if _, err := wire.Decode(payload); err != nil {
			c.t.Errorf("unreadable message %.200q: %v", payload, err)
		}
	case closing:
		c.code = 1005 // none: as it answers one without
		if len(payload) == 0 {
			return nil
		}
		if len(payload) < 2 || len(payload) > 125 {
			c.t.Errorf("close frame % x", payload)
			return nil
		}
		c.code, c.reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
	case ping, pong:
	default:
		c.t.Errorf("frame header % x", head)
	}
	return nil
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
