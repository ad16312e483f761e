//go:build linux

package main

import (
	"bytes"
	"encoding/binary"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

// TestWatchCountsHoweverItIsCut feeds frames of each kind of length, cut into pieces of
// each size, to two clients.
func TestWatchCountsHoweverItIsCut(t *testing.T) {
	var text bytes.Buffer
	want := uint64(0)
	for _, size := range []int{0, 1, 125, 126, 3000, 1 << 16} {
		for _, events := range []int{0, 1, min(size, 7)} {
			events = min(events, size)
			payload := strings.Repeat(string(mark), events) + strings.Repeat("x", size-events)
			want += uint64(events) //nolint:gosec // a count
			if err := ws.WriteFrame(&text, ws.NewTextFrame([]byte(payload))); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, piece := range []int{1, 2, 3, 7, 1000, text.Len()} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		watch := &watch{clients: make([]client, 2), receipts: w}
		for i := range watch.clients {
			if watch.done != 0 {
				t.Fatalf("pieces of %d: said to have reached all before the last client", piece)
			}
			rest := text.Bytes()
			for len(rest) > 0 {
				n := min(piece, len(rest))
				if err = watch.feed(&watch.clients[i], rest[:n], int64(i)); err != nil {
					t.Fatalf("pieces of %d: %v", piece, err)
				}
				rest = rest[n:]
			}
		}
		_ = w.Close()
		said, err := io.ReadAll(r)
		if err != nil || len(said) < receiptSize {
			t.Fatalf("pieces of %d: receipts %q, %v", piece, said, err)
		}
		if last := binary.NativeEndian.Uint64(said[len(said)-receiptSize:]); last != want {
			t.Errorf("pieces of %d: the last receipt is for event %d, want %d", piece, last, want)
		}
	}
}

// TestWatchAnswersPings feeds what centrifuge asks for a pong with, alone and among
// events, in one piece and cut.
func TestWatchAnswersPings(t *testing.T) {
	for _, payload := range []string{"{}", "{\"push\":1}\n{}", "{}\n{\"push\":1}"} {
		for piece := 1; piece <= 20; piece++ {
			near, far := tcpPair(t)
			fd, err := detach(near)
			if err != nil {
				t.Fatal(err)
			}
			watch := &watch{clients: []client{{fd: fd}}, askForPong: []byte("{}")}
			var text bytes.Buffer
			if err = ws.WriteFrame(&text, ws.NewTextFrame([]byte(payload))); err != nil {
				t.Fatal(err)
			}
			for text.Len() > 0 {
				if err = watch.feed(&watch.clients[0], text.Next(piece), 0); err != nil {
					t.Fatal(err)
				}
			}
			f, err := ws.ReadFrame(far)
			if err != nil {
				t.Fatalf("%q in pieces of %d: no pong: %v", payload, piece, err)
			}
			if got := string(ws.UnmaskFrame(f).Payload); got != "{}" {
				t.Errorf("%q in pieces of %d: the pong is %q", payload, piece, got)
			}
		}
	}
}

func tcpPair(t *testing.T) (near *net.TCPConn, far net.Conn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // only for one connection
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err = listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = far.Close() })
	if err := far.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return conn.(*net.TCPConn), far
}

// TestWhenTheKernelGotIt reads later than something arrives. It tries again, as the
// kernel begins to note times a moment after it was asked to.
func TestWhenTheKernelGotIt(t *testing.T) {
	near, far := tcpPair(t)
	w, err := newWatch(longwire, []*visitor{{conn: near}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		before := time.Now().UnixNano()
		if _, err = far.Write([]byte("abc")); err != nil {
			t.Fatal(err)
		}
		var n int
		if n, err = syscall.EpollWait(w.epoll, make([]syscall.EpollEvent, 1), 10_000); n != 1 {
			t.Fatalf("nothing arrives: %v", err)
		}
		there := time.Now().UnixNano()
		for time.Now().UnixNano() < there+int64(time.Millisecond) {
			continue
		}
		n, at, err := w.receive(w.clients[0].fd)
		if err != nil || n != 3 || at < before {
			t.Fatalf("%d bytes, %v, which arrived %d ns after they were written", n, err, at-before)
		}
		if at <= there {
			return
		}
	}
	t.Error("1,000 times the time was that of reading")
}
