package memnet_test

import (
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/internal/memnet"
)

func TestWhatIsDelayedArrivesLaterAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		n.Delay(2*time.Second, 0)
		client, server := pair(t, n)
		begun := time.Now()
		since := func(want time.Duration) {
			t.Helper()
			if got := time.Since(begun); got != want {
				t.Errorf("arrived after %v, want %v", got, want)
			}
		}
		write(t, client, "at once")
		readFull(t, server, 7)
		since(0)
		write(t, server, "slow ")
		time.Sleep(500 * time.Millisecond)
		n.Delay(0, 0)
		write(t, server, "fast")
		_ = server.Close()
		// Nothing overtakes, and the end comes last.
		if got := readFull(t, client, 5); got != "slow " {
			t.Errorf("got %q first", got)
		}
		since(2 * time.Second)
		if got := readFull(t, client, 4); got != "fast" {
			t.Errorf("got %q", got)
		}
		if _, err := client.Read(make([]byte, 1)); err != io.EOF { //nolint:errorlint // must be bare
			t.Errorf("Read = %v, want io.EOF", err)
		}
		since(2 * time.Second)
	})
}

func TestACutLosesWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := memnet.Listen()
		n.Delay(0, time.Second)
		client, server := pair(t, n)
		write(t, client, "lost")
		time.Sleep(500 * time.Millisecond)
		n.Cut()
		time.Sleep(time.Second)
		if got, err := server.Read(make([]byte, 4)); got != 0 || err == nil {
			t.Errorf("Read = %d, %v; want an error", got, err)
		}
	})
}
