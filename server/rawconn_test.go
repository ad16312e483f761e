package server_test

import (
	"bufio"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/longwire/longwire/wire"
)

const (
	opText  = 1
	opClose = 8
	opPing  = 9
	opPong  = 10
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

// masked is a frame of a client, whose key is zero.
func masked(opcode byte, payload string) string {
	head := []byte{0x80 | opcode}
	switch n := len(payload); {
	case n < 126:
		head = append(head, 0x80|byte(n))
	case n < 1<<16:
		head = binary.BigEndian.AppendUint16(append(head, 0x80|126), uint16(n))
	default:
		head = binary.BigEndian.AppendUint64(append(head, 0x80|127), uint64(n))
	}
	return string(head) + "\x00\x00\x00\x00" + payload
}

func (c *rawConn) write(opcode byte, payload string) error {
	c.writing.Lock()
	defer c.writing.Unlock()
	_, err := io.WriteString(c.Conn, masked(opcode, payload))
	return err
}

// read returns the next frame. io.EOF, and nothing else, is an end between frames.
func (c *rawConn) read() (opcode byte, payload []byte, err error) {
	head := make([]byte, 2, 10)
	if _, err = io.ReadFull(c.r, head); err != nil {
		return 0, nil, err
	}
	opcode = head[0] & 0x0f
	size := uint64(head[1])
	switch {
	case head[0]&0xf0 != 0x80:
		return 0, nil, fmt.Errorf("frame %x is a fragment, or has reserved bits", head)
	case size >= 128:
		return 0, nil, fmt.Errorf("frame %x is masked", head)
	case !slices.Contains([]byte{opText, opClose, opPing, opPong}, opcode):
		return 0, nil, fmt.Errorf("frame %x has an opcode of no use", head)
	case opcode >= 8 && size > 125:
		return 0, nil, fmt.Errorf("control frame %x is too long", head)
	}
	if extra := map[uint64]int{126: 2, 127: 8}[size]; extra > 0 {
		if _, err = io.ReadFull(c.r, head[:extra]); err != nil {
			return 0, nil, unexpected(err)
		}
		var whole [8]byte
		copy(whole[8-extra:], head[:extra])
		size = binary.BigEndian.Uint64(whole[:])
		if size < 126 || extra == 8 && size < 1<<16 || size > wire.MaxServerFrame {
			return 0, nil, fmt.Errorf("length %d in %d bytes", size, extra)
		}
	}
	payload = make([]byte, size)
	if _, err = io.ReadFull(c.r, payload); err != nil {
		return 0, nil, unexpected(err)
	}
	if opcode == opClose {
		if len(payload) < 2 || !utf8.Valid(payload[2:]) {
			return 0, nil, fmt.Errorf("close frame %q", payload)
		}
		if !c.rude {
			_ = c.write(opClose, string(payload[:2])) // the peer may have gone already
		}
		if _, err = c.r.Peek(1); !errors.Is(err, io.EOF) {
			return 0, nil, fmt.Errorf("after the close frame %q: %w", payload, cmp.Or(err, errors.New("more")))
		}
	}
	if opcode == opText {
		if c.frames, err = wire.Decode(payload); err != nil {
			return 0, nil, err
		}
	}
	return opcode, payload, nil
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// closeFrame reads up to the close frame and returns what it says.
func (c *rawConn) closeFrame(t *testing.T) (code int, reason string) {
	t.Helper()
	for {
		opcode, payload, err := c.read()
		if err != nil {
			t.Fatalf("no close frame: %v", err)
		}
		if opcode == opClose {
			return int(binary.BigEndian.Uint16(payload)), string(payload[2:])
		}
	}
}
