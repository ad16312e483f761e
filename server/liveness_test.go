package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

func TestHeartbeatWhenNothingElseWasSent(t *testing.T) {
	inWorld(t, server.Options{Heartbeat: 10 * time.Second}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		want(t, "announced", c.welcome.Heartbeat, 10_000)
		start := time.Now()
		publish := func(at time.Duration) { time.AfterFunc(at, func() { w.publish("s", `1`) }) }
		publish(25 * time.Second)
		publish(33 * time.Second)
		var got []string
		for time.Since(start) < 60*time.Second {
			f := <-c.frames
			got = append(got, time.Since(start).String()+" "+f.Type())
		}
		want(t, "frames", got, []string{"10s hb", "20s hb", "25s event", "33s event", "43s hb", "53s hb", "1m3s hb"})
	})
}

func TestDayOfSilence(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.join("ann", `"subs":{"s":{}}`)
		time.Sleep(24 * time.Hour)
		w.publish("s", `1`)
		c.expect(event("s", 1, `1`))
	})
}

func TestPeerThatVanishedIsGoneWithinTwoHeartbeats(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.join("ann", `"subs":{"s":{}}`)
		w.net.Mute(false, true) // its packets do not arrive
		stop := make(chan struct{})
		go func() { // being sent to is no sign of life
			for {
				select {
				case <-stop:
					return
				case <-time.After(time.Second):
					_, _ = w.srv.Publish(context.Background(), "s", []byte(`1`))
				}
			}
		}()
		time.Sleep(29 * time.Second)
		want(t, "connections before", w.srv.Stats().Connections, 1)
		time.Sleep(2 * time.Second)
		stats := w.srv.Stats()
		want(t, "connections, sessions, silent", []int{stats.Connections, stats.Sessions, int(stats.Silent)}, []int{0, 1, 1})
		close(stop)
		synctest.Wait()
	})
}

// On a fast network the pong can be there before the write of the ping has returned.
func TestAPongThatIsFasterThanItsPingIsHeard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		w := newWorldBehind(t, server.Options{}, func(l net.Listener) net.Listener { return lingering{l} })
		w.join("ann")
		time.Sleep(time.Hour)
		stats := w.srv.Stats()
		want(t, "connections, silent", []int{stats.Connections, int(stats.Silent)}, []int{1, 0})
	})
}

// lingering accepts connections whose writes return a while after all has arrived.
type lingering struct{ net.Listener }

func (l lingering) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return lingeringConn{c}, err
}

type lingeringConn struct{ net.Conn }

func (c lingeringConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	time.Sleep(time.Millisecond)
	return n, err
}

func TestReaderThatTakesNothingIsDropped(t *testing.T) {
	data := `"` + strings.Repeat("x", 10<<10) + `"`
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		stalled := w.dialSilently("stalled")
		stalled.send(`{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`)
		healthy := w.join("ann", `"batch":true`, `"subs":{"s":{}}`)
		start := time.Now()
		total := 0
		for range 200 {
			w.publish("s", data)
			time.Sleep(100 * time.Millisecond)
			for len(healthy.frames) > 0 {
				if f, ok := (<-healthy.frames).(wire.Event); ok {
					total++
					want(t, "seq", f.Seq, uint64(total))
				}
			}
		}
		want(t, "delivered to the healthy one", total, 200)
		stats := w.srv.Stats()
		want(t, "connections, stalled", []int{stats.Connections, int(stats.Stalled)}, []int{1, 1})
		if took := time.Since(start); took > 25*time.Second {
			t.Errorf("publishing was held up: %v", took)
		}
	})
}

// A large snapshot over a slow link takes minutes, and all the time there is
// progress.
func TestSlowReaderThatTakesSomethingIsNotDropped(t *testing.T) {
	state := `"` + strings.Repeat("x", 2<<20) + `"`
	inWorld(t, server.Options{
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{State: []byte(state)}, nil
		},
	}, func(t *testing.T, w *world) {
		c := w.dialSilently("ann")
		c.send(`{"t":"resume","v":1,"subs":{"s":{}}}`)
		for range 3 { // welcome, hb with next, snapshot
			_, r, err := c.ws.Reader(context.Background())
			for err == nil {
				if _, err = io.CopyN(io.Discard, r, 50<<10); err == nil {
					time.Sleep(9 * time.Second)
				}
			}
			if !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
		}
		c.listen()
		time.Sleep(5 * time.Minute)
		c.send(`{"t":"ping","n":1}`)
		c.expect(wire.Pong{N: 1})
	})
}

func TestHelloTimeout(t *testing.T) {
	inWorld(t, server.Options{HelloTimeout: 4 * time.Second}, func(t *testing.T, w *world) {
		start := time.Now()
		c := w.dial("ann")
		c.closed(wire.CloseNoSignOfLife, "resume: not received within 4s")
		want(t, "time of the close", time.Since(start), 4*time.Second)
		c = w.dial("ann")
		c.send(`{"t":"resume","v":1}`)
		c.welcomed()
		time.Sleep(time.Minute) // the deadline does not outlive the resume
		c.silent()
	})
}

func TestPingsOfTheWebSocketLayerAreAnswered(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.join("ann")
		for range 3 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if err := c.ws.Ping(ctx); err != nil {
				t.Errorf("Ping: %v", err)
			}
			cancel()
		}
	})
}

func TestControlFramesAreBounded(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		c := w.dialSilently("ann")
		c.send(`{"t":"resume","v":1}`)
		written := make(chan int)
		go func() {
			n := 0
			defer func() { written <- n }()
			for ; n < 100_000; n++ {
				ctx, cancel := context.WithTimeout(context.Background(), 8*time.Second)
				err := c.ws.Write(ctx, 1, []byte(`{"t":"ping","n":9007199254740991}`))
				cancel()
				if err != nil {
					return
				}
			}
		}()
		n := <-written
		// Both directions' buffers, the bound of the queue, and one batch under way.
		if most := 64<<10/33 + 64<<10/39 + 256 + 32<<10/39 + 100; n > most || n < 1000 {
			t.Errorf("a client that reads nothing got %d pings in, want at most %d", n, most)
		}
	})
}
