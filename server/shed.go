package server

import (
	"crypto/sha1" //nolint:gosec // RFC 6455 section 4.2.2 wants it; nothing is kept secret by it
	"encoding/base64"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/longwire/longwire/wire"
)

// shedTime is how long a peer that was turned away may take to read why.
const shedTime = 2 * time.Second

// shedBytes is how much it may say meanwhile.
const shedBytes = 64 << 10

// turnAway refuses an upgrade so that the script of a browser sees it, with close
// code 1013, as long as that may be; else with a 503.
func (s *Server) turnAway(w http.ResponseWriter, r *http.Request, d denial, back comeBack) {
	a := s.admission
	key, ok := upgradeKey(r)
	if ok && a.turnAways.Allow() {
		defer a.shedding.Add(-1)
		if a.shedding.Add(1) <= maxShedding {
			if nc, rw, err := http.NewResponseController(w).Hijack(); err == nil {
				s.counters.shed.Add(1)
				shed(nc, rw, key, s.subprotocol(r), back.reason())
				return
			}
		}
	}
	reject(w, d, back.after())
}

// upgradeKey returns the key of a request that is an opening handshake, RFC 6455
// section 4.2.1. The origin was looked at before.
func upgradeKey(r *http.Request) (key string, ok bool) {
	h := r.Header
	key = h.Get("Sec-WebSocket-Key")
	nonce, err := base64.StdEncoding.DecodeString(key)
	return key, r.Method == http.MethodGet && r.ProtoMajor == 1 && r.ProtoMinor > 0 && err == nil && len(nonce) == 16 &&
		hasToken(h["Connection"], "upgrade") && hasToken(h["Upgrade"], "websocket") &&
		h.Get("Sec-WebSocket-Version") == "13"
}

func hasToken(values []string, token string) bool {
	for _, v := range values {
		for t := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(strings.TrimSpace(t), token) {
				return true
			}
		}
	}
	return false
}

// subprotocol is the one that an upgrade would get: a browser fails a connection
// whose server picks none of those it offered, and does not see its close code.
func (s *Server) subprotocol(r *http.Request) string {
	for _, p := range s.opts.Subprotocols {
		if hasToken(r.Header["Sec-Websocket-Protocol"], p) {
			return p
		}
	}
	return ""
}

// shed answers the handshake and closes at once, all in one write.
func shed(nc net.Conn, peer io.Reader, key, subprotocol, reason string) {
	defer nc.Close()                                                         //nolint:errcheck // what was to be said is said
	accept := sha1.Sum([]byte(key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11")) //nolint:gosec // RFC 6455 section 4.2.2
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " +
		base64.StdEncoding.EncodeToString(accept[:]) + "\r\n"
	if subprotocol != "" {
		answer += "Sec-WebSocket-Protocol: " + subprotocol + "\r\n"
	}
	frame := appendHeader([]byte(answer+"\r\n"), opClose, 2+len(reason))
	frame = binary.BigEndian.AppendUint16(frame, wire.CloseTryLater)
	_ = nc.SetDeadline(time.Now().Add(shedTime)) // fails only when closed, as the write will
	if _, err := nc.Write(append(frame, reason...)); err != nil {
		return
	}
	// A close with bytes unread would reset the connection, and what was written with
	// it. So wait until the peer closes.
	if half, ok := nc.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // else it has gone already
	}
	_, _ = io.CopyN(io.Discard, peer, shedBytes)
}
