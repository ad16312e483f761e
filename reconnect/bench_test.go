package reconnect_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// BenchmarkReceived measures what a live relay makes of one frame of events.
func BenchmarkReceived(b *testing.B) {
	data := wire.Raw(`{"at":1767225600000.125,"symbol":"XMPL","bid":101.25,"ask":101.27,"text":"` + strings.Repeat("x", 70) + `"}`)
	for _, n := range []int{1, 8, 64} {
		b.Run("events="+strconv.Itoa(n), func(b *testing.B) {
			m, err := reconnect.NewMachine(reconnect.Policy{Relay: true, Rand: func() float64 { return 0 }})
			if err != nil {
				b.Fatal(err)
			}
			now := time.Now()
			welcome := wire.Welcome{V: 1, Session: "s", Subs: map[string]wire.Answer{"quotes": {Epoch: "e"}}}
			for _, ev := range []reconnect.Event{
				reconnect.Subscribe{Stream: "quotes"},
				reconnect.Start{},
				reconnect.URLReady{Attempt: 1, URL: "ws://host"},
				reconnect.Opened{Conn: 1},
				reconnect.Received{Conn: 1, Data: welcome.Append(nil)},
			} {
				m.Handle(now, ev)
			}
			f := wire.Events{Stream: "quotes", From: 1}
			for range n {
				f.Data = append(f.Data, data)
			}
			received := reconnect.Received{Conn: 1, Data: f.Append(nil)}
			b.SetBytes(int64(len(received.Data)))
			b.ReportAllocs()
			for b.Loop() {
				// A relay takes the same numbers again: the tabs judge them.
				if out := m.Handle(now, received); len(out) != 1 {
					b.Fatalf("got %d actions want 1: %v", len(out), out)
				}
			}
		})
	}
}
