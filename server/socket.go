package server

import (
	"bufio"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Sizes of the buffers of a connection. net/http's own, 4 KiB each, would live as
// long as the connection does.
const (
	readBuffer = 512
	// ctlBuffer holds one whole control frame (RFC 6455 section 5.5: at most 2 + 125
	// bytes), so that the library below passes each on in one Write.
	ctlBuffer = 128
)

// goodbye is how long a connection that is being closed may take for it.
const goodbye = 5 * time.Second

var errCloseSent = errors.New("server: close frame was sent")

// socket is the net.Conn below the WebSocket library. Data does not pass through
// that library, which would frame and copy it once more: the connection's worker
// hands whole frames to sendNow. The library writes close frames through Write.
type socket struct {
	net.Conn
	raw    syscall.RawConn // for writes that do not wait, nil: there are none
	server *Server
	early  []byte        // arrived with the handshake, not yet read
	step   time.Duration // how often a write looks for progress
	heard  atomic.Int64  // by the server's clock, when something last arrived

	// frame is held from the first to the last byte of a frame. It is a channel
	// because its holder waits for the peer.
	frame     chan struct{}
	closeSent bool // guarded by frame: no data after a close frame

	mu    sync.Mutex
	final time.Time // everything ends then, zero: not yet decided
}

func newSocket(s *Server) *socket {
	return &socket{server: s, step: s.opts.WriteTimeout / 4, frame: make(chan struct{}, 1)}
}

// hijackWriter makes websocket.Accept use a socket, with buffers of our size.
type hijackWriter struct {
	http.ResponseWriter
	socket *socket
}

func (h *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	// Deadlines of the http.Server must not outlive the upgrade.
	if err = nc.SetDeadline(time.Time{}); err != nil {
		return nil, nil, errors.Join(err, nc.Close())
	}
	early, err := rw.Peek(rw.Reader.Buffered())
	if err != nil {
		return nil, nil, errors.Join(err, nc.Close())
	}
	h.socket.Conn = nc
	h.socket.raw = rawConn(nc)
	if _, ok := nc.(*tls.Conn); ok {
		// It cannot go on after a write that timed out.
		h.socket.step = h.socket.server.opts.WriteTimeout
	}
	h.socket.early = append([]byte(nil), early...)
	h.socket.heard.Store(int64(h.socket.server.clock()))
	return h.socket, bufio.NewReadWriter(
		bufio.NewReaderSize(h.socket, readBuffer), bufio.NewWriterSize(h.socket, ctlBuffer)), nil
}

func (s *socket) Read(p []byte) (int, error) {
	if len(s.early) > 0 {
		n := copy(p, s.early)
		if s.early = s.early[n:]; len(s.early) == 0 {
			s.early = nil
		}
		return n, nil
	}
	n, err := s.Conn.Read(p)
	if n > 0 {
		s.hear()
	}
	if op, ok := err.(*net.OpError); ok { //nolint:errorlint // of this very call
		err = op.Err // the library formats it: the addresses cost more than all else at the end
	}
	return n, err
}

func (s *socket) hear() { s.heard.Store(int64(s.server.clock())) }

// Write sends one control frame of the library's.
func (s *socket) Write(p []byte) (int, error) {
	s.frame <- struct{}{}
	defer func() { <-s.frame }()
	const opcode, opClose = 0x0f, 0x08
	if len(p) > 0 && p[0]&opcode == opClose {
		s.closeSent = true
	}
	return len(p), s.write(p)
}

// sendNow writes parts, which together are whole frames, as far as the peer takes them
// at once. The rest is for sendRest; held says that a frame is open until then. It
// changes parts.
func (s *socket) sendNow(d *direct, parts [][]byte) (rest [][]byte, held bool, err error) {
	if s.raw == nil {
		return parts, false, nil
	}
	select {
	case s.frame <- struct{}{}:
	default:
		return parts, false, nil // a close frame is being written
	}
	if s.closeSent {
		err = errCloseSent
	}
	for err == nil && len(parts) > 0 {
		var n int
		if n, err = d.write(s.raw, parts[0]); n < len(parts[0]) && err == nil {
			parts[0] = parts[0][n:]
			return parts, true, nil
		}
		parts = parts[1:]
	}
	<-s.frame
	return nil, false, err
}

// sendRest writes what sendNow has left. It waits for the peer.
func (s *socket) sendRest(rest [][]byte, held bool) error {
	if !held {
		s.frame <- struct{}{}
	}
	defer func() { <-s.frame }()
	if s.closeSent {
		return errCloseSent
	}
	defer s.disarm()
	for _, p := range rest {
		if err := s.write(p); err != nil {
			return err
		}
	}
	return nil
}

// write gives up when the peer has taken nothing for the timeout. A slow peer that
// takes some goes on.
func (s *socket) write(p []byte) error {
	progress, timeout := s.server.clock(), s.server.opts.WriteTimeout
	for len(p) > 0 {
		s.arm()
		n, err := s.Conn.Write(p)
		p = p[n:]
		if n > 0 {
			progress = s.server.clock()
		}
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || s.step == timeout ||
			s.server.clock()-progress >= timeout || s.isOver()) {
			return err
		}
	}
	return nil
}

func (s *socket) arm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	deadline := time.Now().Add(s.step)
	if !s.final.IsZero() && s.final.Before(deadline) {
		deadline = s.final
	}
	_ = s.SetWriteDeadline(deadline) // fails only when closed, as the write will
}

// disarm takes the deadline of a write away: the next may not wait.
func (s *socket) disarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final.IsZero() {
		_ = s.SetWriteDeadline(time.Time{}) // fails only when closed, as a write will
	}
}

func (s *socket) isOver() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.final.IsZero() && !time.Now().Before(s.final)
}

// readBy sets the deadline of reads, the zero time meaning none.
func (s *socket) readBy(t time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final.IsZero() {
		_ = s.SetReadDeadline(t) // fails only when closed, as the read will
	}
}

// interrupt makes a read that waits return at once.
func (s *socket) interrupt() { s.readBy(time.Unix(1, 0)) }

// finish gives everything that is still to be read and written until the goodbye
// is over.
func (s *socket) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.final.IsZero() {
		s.final = time.Now().Add(goodbye)
		_ = s.SetDeadline(s.final) // fails only when closed
	}
}
