package server

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"
)

// The buffers of net/http, 4 KiB each, must not live as long as the connection.
func TestHijackedBuffersAreSmall(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	checked := make(chan struct{})
	hs := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		defer close(checked)
		sock := newSocket(s)
		nc, rw, hijackErr := (&hijackWriter{w, sock}).Hijack()
		if hijackErr != nil {
			t.Errorf("Hijack: %v", hijackErr)
			return
		}
		defer nc.Close() //nolint:errcheck // test
		if got := [2]int{rw.Reader.Size(), rw.Writer.Size()}; got != [2]int{readBuffer, ctlBuffer} || nc != net.Conn(sock) {
			t.Errorf("buffers of %v bytes on a %T, want %d and %d", got, nc, readBuffer, ctlBuffer)
		}
		line, readErr := bufio.NewReader(sock).ReadString('\n')
		if line != "early bytes\n" || readErr != nil {
			t.Errorf("read %q, %v", line, readErr)
		}
	}))
	defer hs.Close()
	conn, err := net.Dial("tcp", hs.Listener.Addr().String()) //nolint:noctx // test
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close() //nolint:errcheck // test
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\nHost: host\r\n\r\nearly bytes\n")); err != nil {
		t.Fatal(err)
	}
	<-checked
}

// Why a read failed is told without the addresses: thousands can fail at once, and the
// library formats the text of each.
func TestReadsFailWithFewWords(t *testing.T) {
	s, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // test
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()                                 //nolint:errcheck // test
	peer, err := net.Dial("tcp", listener.Addr().String()) //nolint:noctx // test
	if err != nil {
		t.Fatal(err)
	}
	defer peer.Close() //nolint:errcheck // test
	sock := newSocket(s)
	if sock.Conn, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	for _, fail := range []struct {
		name string
		do   func() error
		want error
	}{
		{"a deadline", func() error { return sock.SetReadDeadline(time.Unix(1, 0)) }, os.ErrDeadlineExceeded},
		{"the end", func() error { return errors.Join(sock.SetReadDeadline(time.Time{}), peer.Close()) }, io.EOF},
		{"a close", sock.Close, net.ErrClosed},
	} {
		if err := fail.do(); err != nil {
			t.Fatal(err)
		}
		_, err := sock.Read(make([]byte, 1))
		if op, long := errors.AsType[*net.OpError](err); long || !errors.Is(err, fail.want) {
			t.Errorf("%s: %v (%v), want %v alone", fail.name, err, op, fail.want)
		}
	}
}
