package integration_test

import (
	"context"
	"crypto/sha1" //nolint:gosec // of the WebSocket handshake
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// Close frames of every oddity that the peer of a real network sends.
func TestOddCloseFramesAreRetried(t *testing.T) {
	code := func(c uint16, reason string) []byte {
		return append(binary.BigEndian.AppendUint16(nil, c), reason...)
	}
	for name, c := range map[string]struct {
		payload []byte
		code    int
		reason  string
	}{
		"empty":            {nil, 1005, ""},
		"code only":        {code(1011, ""), 1011, ""},
		"longest reason":   {code(4999, strings.Repeat("r", 123)), 4999, strings.Repeat("r", 123)},
		"one byte":         {[]byte{3}, 1006, ""},
		"reserved code":    {code(1006, ""), 1006, ""},
		"reason not UTF-8": {code(1011, "\xff\xfe"), 1011, "\xff\xfe"},
	} {
		t.Run(name, func(t *testing.T) {
			var n atomic.Int32
			h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if n.Add(1) > 1 {
					http.Error(w, "down", http.StatusBadGateway)
					return
				}
				conn, rw, err := http.NewResponseController(w).Hijack()
				if err != nil {
					return
				}
				defer conn.Close()                                                                                     //nolint:errcheck // a test
				accept := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 section 4.2.2
				_, _ = fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: %s\r\n\r\n",
					base64.StdEncoding.EncodeToString(accept[:]))
				_, _ = rw.Write(append([]byte{0x88, byte(len(c.payload))}, c.payload...)) // FIN, close
				_ = rw.Flush()
				_, _ = io.Copy(io.Discard, rw) // until the client has gone
			})
			inFaultyWorld(t, h, reconnect.Options{Policy: reconnect.Policy{Rand: func() float64 { return 0.999 }}}, func(w *world) {
				synctest.Wait()
				s := w.client.Status()
				if s.State != reconnect.Waiting || s.LastClose == nil || s.LastClose.Code != c.code || s.LastClose.Reason != c.reason {
					t.Errorf("got %v %+v\nwant waiting after %d %q", s.State, s.LastClose, c.code, c.reason)
				}
			})
		})
	}
}

// A URL that cannot be dialled is a failed attempt that says why, and the next
// answer may be better.
func TestABadURLIsAFailedAttemptAndNoHotLoop(t *testing.T) {
	for _, bad := range []string{"", "/ws", "://", "ws://", "ftp://server/ws", "ws://server/ws#part", "ws://server:port/", "\x00"} {
		t.Run(bad, func(t *testing.T) {
			var calls atomic.Int32
			url := func(context.Context) (string, error) {
				if calls.Add(1) <= 8 {
					return bad, nil
				}
				return "ws://server/ws", nil
			}
			inWorld(t, server.Options{}, reconnect.Options{URL: url, Policy: reconnect.Policy{Rand: func() float64 { return 0.5 }}}, func(w *world) {
				time.Sleep(5 * time.Second)
				if s := w.client.Status(); s.State == reconnect.Live || s.Reason == "" || calls.Load() > 6 {
					t.Errorf("after 5 s and %d calls: %+v", calls.Load(), s)
				}
				w.live()
			})
		})
	}
}
