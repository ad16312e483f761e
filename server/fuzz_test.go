package server_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// What clients say, after PROTOCOL.md, and what they should not.
var said = []string{
	`{"t":"resume","v":1,"session":"s1","gen":7,"user":"","after":0,"epoch":"e","subs":{"a":{},"b":{"after":1,"epoch":"e"}},"batch":true,"away":12}`,
	`{"t":"resume"}`,
	`{"t":"sub","stream":"a","after":0,"epoch":"e"}`,
	`{"t":"sub"}`,
	`{"t":"unsub","stream":"a"}`,
	`{"t":"unsub"}`,
	`{"t":"msg","id":"1","body":{"say":"hi"}}`,
	`{"t":"msg","id":"1","body":[1e400,"\ud800",null]}`,
	`{"t":"ping","n":9007199254740991}`,
	`{"t":"something of a later version","x":{}}`,
	`{"t":"event","seq":-1,"data":NaN}`,
	`[{"t":"ping","n":1}]`,
	strings.Repeat("[", 600),
	"\xff",
	"null",
}

// FuzzBytesOfAConnection sends any bytes after the upgrade.
func FuzzBytesOfAConnection(f *testing.F) {
	hello := maskedFrame(text, said[0])
	for _, s := range said {
		f.Add(hello + maskedFrame(text, s))
		f.Add(maskedFrame(text, s) + maskedFrame(textBegin, s) + maskedFrame(ping, "x") + maskedFrame(textEnd, s))
	}
	for _, tt := range brokenFrames {
		f.Add(hello + tt.bytes)
	}
	for _, tt := range closeFrames {
		f.Add(hello + maskedFrame(closing, tt.payload))
	}
	f.Fuzz(survives)
}

// FuzzFramesOfAConnection sends whole frames with any flags, any opcode and any
// payload. In its input each frame ends with a NUL.
func FuzzFramesOfAConnection(f *testing.F) {
	for _, s := range said {
		f.Add("\x81" + said[0] + "\x00\x81" + s)
		f.Add("\x81" + said[1] + "\x00\x01" + s[:len(s)/2] + "\x00\x89ping\x00\x80" + s[len(s)/2:] + "\x00\x88\x03\xe8bye")
	}
	f.Fuzz(func(t *testing.T, frames string) {
		var sent strings.Builder
		for frame := range strings.SplitSeq(frames, "\x00") {
			if frame != "" {
				sent.WriteString(maskedFrame(frame[0], frame[1:]))
			}
		}
		survives(t, sent.String())
	})
}

// survives sends bytes after an upgrade: the server goes on, others do not notice, and
// nothing is left of the connection.
func survives(t *testing.T, sent string) {
	t.Helper()
	inWorld(t, server.Options{OnMessage: echo}, func(t *testing.T, w *world) {
		other := w.join("ann", `"subs":{"a":{}}`)
		c := w.upgrade()
		c.write(sent)
		synctest.Wait()
		w.publish("a", `1`)
		other.expect(event("a", 1, `1`))
		other.send(`{"t":"ping","n":1}`)
		other.expect(wire.Pong{N: 1})
		c.ended() // it answers no ping
		synctest.Wait()
		want(t, "connections", w.srv.Stats().Connections, 1)
	})
}
