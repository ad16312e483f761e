package memnet_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
)

// pair dials a network and accepts the other end.
func pair(t *testing.T, n *memnet.Network) (client, server net.Conn) {
	t.Helper()
	client, err := n.DialContext(t.Context(), "tcp", "host:80")
	if err != nil {
		t.Fatal(err)
	}
	server, err = n.Listener().Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		_ = server.Close()
	})
	return client, server
}

func readFull(t *testing.T, c net.Conn, n int) string {
	t.Helper()
	b := make([]byte, n)
	if _, err := io.ReadFull(c, b); err != nil {
		t.Fatalf("read of %d bytes: %v", n, err)
	}
	return string(b)
}

func write(t *testing.T, c net.Conn, s string) {
	t.Helper()
	if n, err := c.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("Write = %d, %v; want %d, nil", n, err, len(s))
	}
}

func TestServesHTTP(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			_, _ = w.Write(body)
		}), ReadHeaderTimeout: time.Minute}
		go srv.Serve(n.Listener()) //nolint:errcheck // ends with ErrServerClosed
		transport := &http.Transport{DialContext: n.DialContext}
		for range 3 {
			res, err := (&http.Client{Transport: transport}).Post("http://host/", "text/plain", bytes.NewReader(make([]byte, 200_000))) //nolint:noctx // test
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if len(body) != 200_000 || err != nil {
				t.Errorf("body of %d bytes, %v; want 200000, nil", len(body), err)
			}
		}
		transport.CloseIdleConnections()
		if err := srv.Shutdown(t.Context()); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := n.Count(); got != 0 {
			t.Errorf("connections left: %d, want 0", got)
		}
	})
}

func TestCloseLetsTheOtherEndReadTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		client, server := pair(t, n)
		write(t, server, "farewell")
		_ = server.Close()
		if got := readFull(t, client, 8); got != "farewell" {
			t.Errorf("read %q", got)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // must be bare
			t.Errorf("Read after close = %v, want io.EOF itself", err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("Write to a closed end = %v, want EPIPE", err)
		}
		if _, err := server.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
			t.Errorf("Read of a closed end = %v, want ErrClosed", err)
		}
		if err := server.Close(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("second Close = %v, want ErrClosed", err)
		}
		if got := n.Count(); got != 1 {
			t.Errorf("half open: Count = %d, want 1", got)
		}
		_ = client.Close()
		if got := n.Count(); got != 0 {
			t.Errorf("closed by both: Count = %d, want 0", got)
		}
	})
}

func TestCutResetsBothEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		client, server := pair(t, n)
		write(t, server, "lost")
		failed := make(chan error)
		go func() {
			_, err := server.Read(make([]byte, 1))
			failed <- err
		}()
		synctest.Wait()
		n.Cut()
		if err := <-failed; !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("blocked Read = %v, want ECONNRESET", err)
		}
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("client Read = %v, want ECONNRESET", err)
		}
		if _, err := client.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("client Write = %v, want ECONNRESET", err)
		}
		if got := n.Count(); got != 0 {
			t.Errorf("Count = %d, want 0", got)
		}
	})
}

func TestMuteHoldsBytesBackUntilReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		client, server := pair(t, n)
		n.Mute(true, false)
		write(t, server, "down")
		write(t, client, "up")
		if got := readFull(t, server, 2); got != "up" {
			t.Errorf("read %q", got)
		}
		_ = client.SetReadDeadline(time.Now().Add(time.Hour))
		if n, err := client.Read(make([]byte, 4)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("muted Read = %d, %v; want a timeout", n, err)
		}
		n.Mute(false, false)
		_ = client.SetReadDeadline(time.Time{})
		if got := readFull(t, client, 4); got != "down" {
			t.Errorf("read %q", got)
		}
	})
}

func TestMuteHoldsForConnectionsToCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		n.Mute(false, true)
		client, server := pair(t, n)
		write(t, client, "up")
		_ = server.SetReadDeadline(time.Now().Add(time.Second))
		if _, err := server.Read(make([]byte, 2)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("muted Read = %v, want a timeout", err)
		}
	})
}

func TestWriterBlocksAtTheBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		client, server := pair(t, n)
		_ = server.SetWriteDeadline(time.Now().Add(time.Second))
		const bound = 64 << 10
		if n, err := server.Write(make([]byte, bound+1)); n != bound || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Write = %d, %v; want %d and a timeout", n, err, bound)
		}
		_ = server.SetWriteDeadline(time.Time{})
		done := make(chan error)
		go func() {
			_, err := server.Write([]byte("z"))
			done <- err
		}()
		synctest.Wait()
		readFull(t, client, bound)
		if err := <-done; err != nil {
			t.Errorf("Write after room was made: %v", err)
		}
	})
}

func TestDeadlineThatMovesWakesTheReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, _ := pair(t, memnet.Listen())
		start := time.Now()
		_ = client.SetReadDeadline(start.Add(time.Hour))
		time.AfterFunc(time.Second, func() { _ = client.SetReadDeadline(start) })
		_, err := client.Read(make([]byte, 1))
		if got := time.Since(start); got != time.Second || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("Read ended after %v with %v; want 1s and a timeout", got, err)
		}
	})
}

func TestDialsAreRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		n.Refuse(true)
		if _, err := n.DialContext(t.Context(), "tcp", "host:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("refused dial: %v", err)
		}
		n.Refuse(false)
		client, _ := pair(t, n)

		pending, err := n.DialContext(t.Context(), "tcp", "host:80")
		if err != nil {
			t.Fatal(err)
		}
		_ = n.Listener().Close()
		if _, err := pending.Read(make([]byte, 1)); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("dialled, never accepted, listener closed: Read = %v", err)
		}
		if _, err := n.DialContext(t.Context(), "tcp", "host:80"); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("dial without a listener: %v", err)
		}
		n.Listener()
		again, _ := pair(t, n)
		write(t, client, "the old connection lives")
		write(t, again, "and so does the new")
		if got := n.Dials(); got != 5 {
			t.Errorf("Dials = %d, want 5", got)
		}
	})
}

func TestDialEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		for range 128 {
			c, err := n.DialContext(t.Context(), "tcp", "host:80")
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close() //nolint:errcheck // test
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := n.DialContext(ctx, "tcp", "host:80"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("dial into a full backlog: %v", err)
		}
		if got := n.Count(); got != 128 {
			t.Errorf("Count = %d, want 128", got)
		}
	})
}

// A dial at the moment the listener closes is refused or reset: it never waits in a
// queue that nobody will look at again.
func TestADialDuringCloseIsNotForgotten(t *testing.T) {
	for range 5000 {
		n := memnet.Listen()
		l := n.Listener()
		var wg sync.WaitGroup
		wg.Go(func() { l.Close() }) //nolint:errcheck // it says nothing
		c, err := n.DialContext(t.Context(), "mem", "server")
		wg.Wait()
		if err == nil {
			if _, err := c.Read(make([]byte, 1)); err == nil {
				t.Fatal("read something")
			}
			c.Close() //nolint:errcheck // it was reset
		}
		if left := n.Count(); left != 0 {
			t.Fatalf("%d connections left", left)
		}
	}
}
