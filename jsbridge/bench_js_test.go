package jsbridge

import (
	"strconv"
	"testing"
)

// BenchmarkMessages measures how fast small messages come through to the handler,
// beside page JavaScript that only counts them.
func BenchmarkMessages(b *testing.B) {
	const messages = 20_000
	url := func() string {
		return at("/ws/frames", newID(), "n", strconv.Itoa(messages), "size", "150", "code", "1000")
	}
	b.Run("page", func(b *testing.B) {
		for b.Loop() {
			p := must(eval(`new Promise((done, fail) => {
				let n = 0
				const ws = new WebSocket("` + url() + `")
				ws.onmessage = () => n++
				ws.onclose = () => n === ` + strconv.Itoa(messages) + ` ? done() : fail(n)
			})`))
			if _, err := Await(b.Context(), p); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "messages/s")
	})
	b.Run("socket", func(b *testing.B) {
		for b.Loop() {
			n, closed := 0, make(chan struct{})
			_, err := Dial(url(), SocketHandler{
				Message: func([]byte, bool) { n++ },
				Close:   func(CloseInfo) { close(closed) },
			})
			if err != nil {
				b.Fatal(err)
			}
			<-closed
			if n != messages {
				b.Fatalf("%d messages, want %d", n, messages)
			}
		}
		b.ReportMetric(float64(messages*b.N)/b.Elapsed().Seconds(), "messages/s")
	})
}
