package server

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
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
