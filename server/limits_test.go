package server_test

import (
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// More than the node takes, peers that say nothing at any stage: what else it serves
// is served at once, and the silent ones are gone in time.
func TestLimitsLeaveTheRestOfTheProcessAlone(t *testing.T) {
	inWorld(t, server.Options{
		HelloTimeout: 2 * time.Second,
		Admission:    server.Admission{Connections: 100, UserConnections: 5, TurnAways: 50},
	}, func(t *testing.T, w *world) {
		asUser := func(user string) string { return strings.Replace(upgradeRequest, "Host", "User: "+user+"\r\nHost", 1) }
		var raws []*rawConn
		for range 50 {
			raws = append(raws, w.rawDial(""))
			raws = append(raws, w.rawDial(asUser("mute")))
		}
		synctest.Wait()
		count := map[string]int{}
		for i := range 300 {
			c := w.rawDial(asUser(fmt.Sprint("user", i%8)) + maskedFrame(text, `{"t":"resume","v":1}`))
			raws = append(raws, c)
			synctest.Wait()
			if status := c.upgraded(t); status != 101 {
				count[fmt.Sprint(status)]++
				continue
			}
			first, err := c.read()
			switch {
			case err != nil:
				t.Fatal(err)
			case first == closing:
				count[fmt.Sprint(c.code)]++
				_ = c.Close()
			default:
				count["welcome"]++
			}
		}
		// 50 are mute, eight users have five each.
		want(t, "what became of 300", count, map[string]int{"welcome": 40, "4429": 260})
		synctest.Wait() // for the end of the last one
		for range 10 {
			c := w.rawDial(asUser("filling"))
			raws = append(raws, c)
			want(t, "status", c.upgraded(t), 101)
		}
		for range 300 {
			c := w.rawDial(asUser("beyond"))
			raws = append(raws, c)
			count[fmt.Sprint(c.upgraded(t))]++
			_ = c.Close()
		}
		want(t, "what became of 300 more", []int{count["101"], count["503"]}, []int{50, 250})
		begun := time.Now()
		want(t, "probe", w.get(http.MethodGet, "/probe").StatusCode, 503)
		want(t, "readiness", w.get(http.MethodGet, "/ready").StatusCode, 200)
		want(t, "both took", time.Since(begun), 0)
		s := w.srv.Stats()
		want(t, "connections, live", []int{s.Connections, s.Live}, []int{100, 40})

		time.Sleep(2 * time.Second)
		synctest.Wait()
		want(t, "told that they were silent", w.srv.Stats().Denied["no_hello"], 60)
		time.Sleep(5 * time.Second) // the goodbye of who says nothing
		s = w.addsUp()
		want(t, "connections, live", []int{s.Connections, s.Live}, []int{40, 40})
		want(t, "probe", w.get(http.MethodGet, "/probe").StatusCode, 204)
		for _, c := range raws {
			_ = c.Close()
		}
		synctest.Wait()
		s = w.addsUp()
		want(t, "connections, live, of the network", []int{s.Connections, s.Live, w.net.Count()}, []int{0, 0, 0})
	})
}

func TestWhoHasNotSaidHelloCostsLittle(t *testing.T) {
	inWorld(t, server.Options{Admission: server.Admission{Handshakes: 2000}}, func(t *testing.T, w *world) {
		var raws []*rawConn
		for range 1000 {
			raws = append(raws, w.rawDial(upgradeRequest))
		}
		synctest.Wait()
		want(t, "connections", w.srv.Stats().Connections, 1000)
		// Signs of life are no hello.
		for range 9 {
			for _, c := range raws[:10] {
				if err := c.write(ping, "x"); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
		}
		time.Sleep(time.Second)
		for _, c := range raws {
			want(t, "status", c.upgraded(t), 101)
			if code, reason := c.closeFrame(t); code != wire.CloseNoSignOfLife || reason != "resume: not received within 10s" {
				t.Fatalf("%d %q", code, reason)
			}
		}
		s := w.addsUp()
		want(t, "connections, denied", []any{s.Connections, s.Denied}, []any{0, map[string]uint64{"no_hello": 1000}})
		for _, c := range raws {
			_ = c.Close()
		}

		// Of many frames only the first is looked at.
		c := w.rawDial(upgradeRequest)
		want(t, "status", c.upgraded(t), 101)
		go func() {
			for range 10_000 {
				if c.write(text, `{"t":"ping","n":1}`) != nil {
					return
				}
			}
		}()
		code, reason := c.closeFrame(t)
		want(t, "closed with", fmt.Sprint(code, " ", reason), "4400 ping: the first frame must be resume")
		_ = c.Close()
		s = w.addsUp()
		want(t, "malformed, connections", []any{s.Malformed, s.Connections}, []any{uint64(1), 0})
	})
}

// Descriptors, goroutines and gauges after many connections that were lost.
func TestConnectionsThatAreLostLeaveNothing(t *testing.T) {
	descriptors := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Skip("the descriptors cannot be counted here")
		}
		return len(entries)
	}
	srv, url := onLoopback(t, server.Options{Admission: server.Admission{Handshakes: 100_000}}, nil)
	address := strings.TrimPrefix(url, "ws://")
	cycle := func(n int) {
		for i := range n {
			conn, err := net.Dial("tcp", address) //nolint:noctx // test
			if err != nil {
				t.Fatal(err)
			}
			_, err = conn.Write([]byte(upgradeRequest + maskedFrame(text, `{"t":"resume","v":1,"subs":{"s":{}}}`)))
			if err != nil {
				t.Fatal(err)
			}
			if c := newRaw(conn); i%4 > 0 {
				want(t, "status", c.upgraded(t), 101)
				if first, err := c.read(); first != text || err != nil {
					t.Fatal(first, err)
				}
			}
			if i%2 == 0 {
				_ = conn.(*net.TCPConn).SetLinger(0) // a reset
			}
			_ = conn.Close()
		}
	}
	settle := func(goroutines, files int) {
		storetest.Eventually(t, "each handshake has come to an end, and goroutines and descriptors are gone", func() bool {
			s := srv.Stats()
			sum := s.Welcomes
			for _, n := range s.Denied {
				sum += n
			}
			return s.Handshakes == sum && s.Connections == 0 && s.Live == 0 &&
				runtime.NumGoroutine() <= goroutines && descriptors() <= files
		})
	}
	cycle(50)
	settle(math.MaxInt, math.MaxInt)
	goroutines, files := runtime.NumGoroutine(), descriptors()
	cycle(1000)
	settle(goroutines+2, files+2)
}

// One that reads nothing, and fifty that read, of much.
func TestOneThatReadsNothingDoesNotHurtTheOthers(t *testing.T) {
	const events, healthy = 80, 50
	inWorld(t, server.Options{
		WriteTimeout: 40 * time.Millisecond,
		Log:          stream.Limits{Events: 50},
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{State: []byte(`"state"`)}, nil
		},
	}, func(t *testing.T, w *world) {
		stalled := w.dialSilently("ann")
		stalled.send(`{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`)
		synctest.Wait()
		late := make(chan error, healthy)
		begun := time.Now()
		for range healthy {
			c := w.rawDial(upgradeRequest + maskedFrame(text, `{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`))
			want(t, "status", c.upgraded(t), 101)
			if _, err := c.read(); err != nil {
				t.Fatal(err)
			}
			go func() {
				late <- func() error {
					for at := 0; at < events; {
						first, err := c.read()
						if err != nil || first != text {
							return fmt.Errorf("%d %w", first, err)
						}
						e, ok := c.frames[0].(wire.Event)
						if !ok {
							continue // the snapshot
						}
						if at++; int(e.Seq) != at || time.Since(begun) != time.Duration(at)*time.Millisecond {
							return fmt.Errorf("event %d as number %d after %v", e.Seq, at, time.Since(begun))
						}
					}
					return c.Close()
				}()
			}()
		}
		synctest.Wait()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for range events { // a thousand a second
			time.Sleep(time.Millisecond)
			w.publish("s", `"`+long(10<<10)+`"`)
		}
		synctest.Wait()
		runtime.GC()
		runtime.ReadMemStats(&after)
		for range healthy {
			if err := <-late; err != nil {
				t.Error(err)
			}
		}
		if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 16<<20 {
			t.Errorf("%d bytes more after %d published", grown, events*10<<10)
		}
		s := w.srv.Stats()
		want(t, "stalled, live", []any{s.Stalled, s.Live}, []any{uint64(1), 0})

		// It comes back beyond what the log has, and gets the state.
		stalled.listen()
		stalled.until("")
		again := w.join("ann", `"session":"`+stalled.welcome.Session+`"`, `"subs":{"s":{"after":1,"epoch":"`+w.epoch("s")+`"}}`)
		want(t, "told", again.welcome.Subs["s"].Resync, true)
		snapshot, ok := again.next().(wire.Snapshot)
		want(t, "the state and where it stands", []any{ok, string(snapshot.State), snapshot.Seq}, []any{true, `"state"`, uint64(events)})
	})
}

func (w *world) epoch(stream string) string {
	w.t.Helper()
	c := w.join("", `"subs":{"`+stream+`":{}}`)
	defer c.ws.CloseNow() //nolint:errcheck // test
	return c.welcome.Subs[stream].Epoch
}
