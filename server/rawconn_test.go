package server_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"

	"github.com/longwire/longwire/wire"
)

// upgradeRequest is an opening handshake, as bytes.
const upgradeRequest = "GET /ws HTTP/1.1\r\nHost: host\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n" +
	"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"

// rawConn is a WebSocket client without a library: it sends what it is told to, and
// takes nothing that RFC 6455 does not allow.
type rawConn struct {
	net.Conn
	r       *bufio.Reader
	writing sync.Mutex
	rude    bool         // does not answer a close frame
	frames  []wire.Frame // of the text message read last

	code   int // of the close frame, 0: there was none yet
	reason string
	end    error // what came after it
}

func newRaw(conn net.Conn) *rawConn { return &rawConn{Conn: conn, r: bufio.NewReader(conn)} }

// rawDial opens a TCP connection and sends text.
func (w *world) rawDial(text string) *rawConn {
	w.t.Helper()
	conn, err := w.net.DialContext(w.t.Context(), "tcp", "host")
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	return newRaw(conn)
}

// upgraded reads the answer to the upgrade and returns its status.
func (c *rawConn) upgraded(t *testing.T) int {
	t.Helper()
	res, err := http.ReadResponse(c.r, nil)
	if err != nil {
		t.Fatalf("answer to the upgrade: %v", err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols {
		_, _ = io.Copy(io.Discard, res.Body)
		_ = res.Body.Close()
		return res.StatusCode
	}
	got := []string{res.Header.Get("Upgrade"), res.Header.Get("Connection"), res.Header.Get("Sec-Websocket-Accept")}
	want(t, "headers", got, []string{"websocket", "Upgrade", "ICX+Yqv66kxgM0FcWaLWlFLwTAI="})
	return res.StatusCode
}

func (c *rawConn) write(first byte, payload string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := io.WriteString(c.Conn, maskedFrame(first, payload))
	return err
}

// read returns the first byte of the next frame. io.EOF is an end
// between frames. A close frame is answered, and must be the last one. Its reason may
// be the peer's own, echoed: whatever that is.
func (c *rawConn) read() (first byte, err error) {
	head := make([]byte, 2, 10)
	if _, err = io.ReadFull(c.r, head); err != nil {
		return 0, err
	}
	first = head[0]
	size := uint64(head[1])
	switch {
	case !slices.Contains([]byte{text, closing, ping, pong}, first) || size >= 128:
		return 0, fmt.Errorf("frame header % x", head)
	case first != text && size > 125:
		return 0, fmt.Errorf("control frame % x is too long", head)
	}
	if extra := map[uint64]int{126: 2, 127: 8}[size]; extra > 0 {
		var whole [8]byte
		if _, err = io.ReadFull(c.r, whole[8-extra:]); err != nil {
			return 0, fmt.Errorf("within a header: %w", err)
		}
		size = binary.BigEndian.Uint64(whole[:])
		if size < 126 || extra == 8 && size < 1<<16 || size > wire.MaxServerFrame {
			return 0, fmt.Errorf("length %d in %d bytes", size, extra)
		}
	}
	payload := make([]byte, size)
	if _, err = io.ReadFull(c.r, payload); err != nil {
		return 0, fmt.Errorf("within a frame: %w", err)
	}
	switch first {
	case text:
		if c.frames, err = wire.Decode(payload); err != nil {
			return 0, fmt.Errorf("unreadable message %.200q: %w", payload, err)
		}
	case closing:
		c.code = 1005 // none: as it answers one without
		if len(payload) == 1 {
			return 0, fmt.Errorf("close frame % x", payload)
		}
		if len(payload) > 1 {
			c.code, c.reason = int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
		if !c.rude {
			_ = c.write(closing, string(payload[:min(2, len(payload))])) // the peer may have gone already
		}
		if _, c.end = c.r.Peek(1); c.end == nil {
			return 0, errors.New("something comes after the close frame")
		}
	}
	return first, nil
}

// closeFrame reads up to the close frame and returns what it says.
func (c *rawConn) closeFrame(t *testing.T) (code int, reason string) {
	t.Helper()
	for c.code == 0 {
		if _, err := c.read(); err != nil {
			t.Fatalf("no close frame: %v", err)
		}
	}
	return c.code, c.reason
}
