package server

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"runtime"
	"testing"
	"time"
)

// socketPair returns a socket of a server, and its peer.
func socketPair(t *testing.T, o Options) (*socket, net.Conn) {
	t.Helper()
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // at once
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() //nolint:errcheck // only for one connection
	peer, err := new(net.Dialer).DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	sock := newSocket(s)
	if sock.Conn, err = listener.Accept(); err != nil {
		t.Fatal(err)
	}
	sock.raw = rawConn(sock.Conn)
	t.Cleanup(func() {
		_ = peer.Close()
		_ = sock.Close()
		_ = s.Close()
	})
	if sock.raw == nil {
		t.Skip("this system has no writes that do not wait")
	}
	return sock, peer
}

func newDirect() *direct {
	d := new(direct)
	d.init()
	return d
}

// What a full socket has left is written before anything else, a close frame of the
// library's included, and after that nothing waits that must not.
func TestTheRestOfAWriteComesFirst(t *testing.T) {
	sock, peer := socketPair(t, Options{})
	data := bytes.Repeat([]byte("x"), 16<<20) // more than any socket takes
	rest, held, err := sock.sendNow(newDirect(), [][]byte{data[:5], data[5:]})
	if len(rest) != 1 || !held || err != nil {
		t.Fatalf("sendNow = %d parts left, %v, %v; want one, held", len(rest), held, err)
	}
	ended := make(chan error, 2)
	goodbye := []byte{0x80 | opClose, 0}
	go func() {
		_, errClose := sock.Write(goodbye)
		ended <- errClose
	}()
	go func() { ended <- sock.sendRest(rest, held) }()
	got := make([]byte, len(data)+len(goodbye))
	if _, err = io.ReadFull(peer, got); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err = <-ended; err != nil {
			t.Error(err)
		}
	}
	if !bytes.Equal(got[:len(data)], data) || !bytes.Equal(got[len(data):], goodbye) {
		t.Error("the close frame is not behind the data")
	}
	if _, _, err = sock.sendNow(newDirect(), [][]byte{{1}}); !errors.Is(err, errCloseSent) {
		t.Errorf("sendNow after a close frame: %v", err)
	}
}

func TestAWriteAfterOneThatHadToWait(t *testing.T) {
	const timeout = 4 * time.Second // longer than a busy machine keeps the peer from reading
	sock, peer := socketPair(t, Options{WriteTimeout: timeout})
	rest, held, err := sock.sendNow(newDirect(), [][]byte{make([]byte, 16<<20)})
	if len(rest) == 0 || err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, peer) //nolint:errcheck // until it is closed
	if err = sock.sendRest(rest, held); err != nil {
		t.Fatal(err)
	}
	time.Sleep(sock.step + sock.step/10) // the deadline of that write must not be one of the next
	if rest, _, err = sock.sendNow(newDirect(), [][]byte{{1}}); len(rest) > 0 || err != nil {
		t.Errorf("sendNow = %d parts left, %v", len(rest), err)
	}
}

func TestAPeerThatTakesNothingIsGivenUp(t *testing.T) {
	sock, _ := socketPair(t, Options{WriteTimeout: 100 * time.Millisecond})
	rest, held, err := sock.sendNow(newDirect(), [][]byte{make([]byte, 16<<20)})
	if err == nil {
		err = sock.sendRest(rest, held)
	}
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("error %v, want a deadline", err)
	}
}

// A peer that reads nothing must not have megabytes in the kernel.
func TestTheKernelTakesInLittleForAPeerThatReadsNothing(t *testing.T) {
	if runtime.GOOS != "linux" && runtime.GOOS != "darwin" {
		t.Skip("this system cannot be told to")
	}
	sock, _ := socketPair(t, Options{})
	if err := sock.SetWriteDeadline(time.Now().Add(300 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := sock.Conn.Write(make([]byte, 16<<20))
	if !errors.Is(err, os.ErrDeadlineExceeded) || n > 1<<20 {
		t.Errorf("it took %d bytes: %v", n, err)
	}
}
