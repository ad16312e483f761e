package wire_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/longwire/longwire/wire"
)

// payload is an event of about 150 bytes, as an application would send it.
var payload = wire.Raw(`{"at":1767225600000.125,"symbol":"XMPL","bid":101.25,"ask":101.27,"volume":12345,"tags":["a","b"],"text":"` + strings.Repeat("x", 40) + `"}`)

// benchFrames are frames with the events of one each and of many.
func benchFrames() []wire.Frame {
	frames := []wire.Frame{wire.Event{Seq: 123456, Stream: "quotes", Data: payload}}
	for _, n := range []int{8, 64} {
		f := wire.Events{From: 123456, Stream: "quotes"}
		for range n {
			f.Data = append(f.Data, payload)
		}
		frames = append(frames, f)
	}
	return frames
}

func benchName(f wire.Frame) string {
	if f, ok := f.(wire.Events); ok {
		return "events=" + strconv.Itoa(len(f.Data))
	}
	return f.Type()
}

func BenchmarkDecode(b *testing.B) {
	for _, frame := range benchFrames() {
		b.Run(benchName(frame), func(b *testing.B) {
			text := frame.Append(nil)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := wire.Decode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAppend(b *testing.B) {
	for _, frame := range benchFrames() {
		b.Run(benchName(frame), func(b *testing.B) {
			text := frame.Append(nil)
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				text = frame.Append(text[:0])
			}
		})
	}
}
