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
	"time"
)

// Sizes of the buffers of a connection. net/http's own, 4 KiB each, would live as
// long as the connection does.
const (
	readBuffer = 1024
	// ctlBuffer holds one whole control frame (RFC 6455 section 5.5: at most 2 + 125
	// bytes), so that the library below passes each on in one Write.
	ctlBuffer = 128
)

// goodbye is how long a connection that is being closed may take for it.
const goodbye = 5 * time.Second

var errCloseSent = errors.New("server: close frame was sent")

// socket is the net.Conn below the WebSocket library. Data does not pass through
// that library, which would frame and copy it once more: the connection's writer
// hands whole frames to send. The library writes close frames through Write.
type socket struct {
	net.Conn
	early   []byte // arrived with the handshake, not yet read
	timeout time.Duration
	step    time.Duration // how often a write looks for progress
	clock   func() time.Duration
	heard   atomic.Int64 // by clock, when something last arrived

	// frame is held from the first to the last byte of a frame. It is a channel
	// because its holder waits for the peer.
	frame     chan struct{}
	closeSent bool // guarded by frame: no data after a close frame

	mu    sync.Mutex
	final time.Time // everything ends then, zero: not yet decided
}

func newSocket(s *Server) *socket {
	timeout := s.opts.WriteTimeout
	return &socket{timeout: timeout, step: timeout / 4, clock: s.clock, frame: make(chan struct{}, 1)}
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
	if _, ok := nc.(*tls.Conn); ok {
		// It cannot go on after a write that timed out.
		h.socket.step = h.socket.timeout
	}
	h.socket.early = append([]byte(nil), early...)
	h.socket.heard.Store(int64(h.socket.clock()))
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
	return n, err
}

func (s *socket) hear() { s.heard.Store(int64(s.clock())) }

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

// send writes parts, which together are whole frames.
func (s *socket) send(parts ...[]byte) error {
	s.frame <- struct{}{}
	defer func() { <-s.frame }()
	if s.closeSent {
		return errCloseSent
	}
	for _, p := range parts {
		if err := s.write(p); err != nil {
			return err
		}
	}
	return nil
}

// write gives up when the peer has taken nothing for the timeout. A slow peer that
// takes some goes on.
func (s *socket) write(p []byte) error {
	progress := s.clock()
	for len(p) > 0 {
		s.arm()
		n, err := s.Conn.Write(p)
		p = p[n:]
		if n > 0 {
			progress = s.clock()
		}
		if err != nil && (!errors.Is(err, os.ErrDeadlineExceeded) || s.step == s.timeout ||
			s.clock()-progress >= s.timeout || s.isOver()) {
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
