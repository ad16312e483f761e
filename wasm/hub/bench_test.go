package hub_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
)

// BenchmarkEvent passes events of about 150 bytes on: to the own tab alone, and to
// others as well.
func BenchmarkEvent(b *testing.B) {
	payload := strings.Repeat("x", 110)
	for _, others := range []bool{false, true} {
		b.Run("others="+strconv.FormatBool(others), func(b *testing.B) {
			now := time.UnixMilli(1_000_000)
			h, err := hub.New(reconnect.Policy{Rand: func() float64 { return 0 }}, hub.Options{ID: "H", Tab: "own"})
			if err != nil {
				b.Fatal(err)
			}
			const following = `{"t":"resume","own":false,"subs":{"a":{"after":0,"epoch":"e"}}}`
			other := func(frame string) { // its number is the time
				h.FromChannel(now, []byte(`{"g":1000000,"i":"t2","to":"H","f":`+frame+`}`))
			}
			h.FromOwn(now, []byte(`{"t":"start"}`))
			h.FromOwn(now, []byte(following))
			if others {
				other(following)
			}
			h.FromOwn(now, []byte(`{"t":"have","n":1,"url":"ws://x"}`))
			h.Event(now, reconnect.Opened{Conn: 1})
			h.Event(now, reconnect.Received{Conn: 1, Data: []byte(welcomeWith(`{"a":{"seq":0,"epoch":"e","first":0,"resync":false}}`))})
			text := []byte(`{"t":"event","seq":1,"stream":"a","data":"` + payload + `"}`)
			want := 1
			if others {
				want = 2
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				switch got := h.Event(now, reconnect.Received{Conn: 1, Data: text}); {
				case len(got) < want:
					b.Fatalf("%d actions", len(got))
				case len(got) > want: // a beat, as much was posted: who does not answer counts no more
					other(`{"t":"here"}`)
				}
			}
		})
	}
}
