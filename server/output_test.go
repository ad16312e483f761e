package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/longwire/longwire/wire"
)

// received returns the messages that a strict parser finds in what o would send.
func received(t *testing.T, o *output) []string {
	t.Helper()
	o.finish()
	client, srv := net.Pipe()
	go func() {
		defer srv.Close() //nolint:errcheck // test
		for _, part := range o.parts() {
			_, _ = srv.Write(part)
		}
	}()
	var messages []string
	for {
		msg, err := readFrame(client)
		if err == io.EOF { //nolint:errorlint // of the pipe itself
			return messages
		}
		if err != nil {
			t.Fatal(err)
		}
		messages = append(messages, msg)
	}
}

// readFrame reads one unmasked text frame, RFC 6455 section 5.2.
func readFrame(r io.Reader) (string, error) {
	var head [2]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return "", err
	}
	if head[0] != 0x81 {
		return "", fmt.Errorf("first byte %#x, want 0x81", head[0])
	}
	size, extra := int(head[1]), map[byte]int{126: 2, 127: 8}[head[1]]
	if extra > 0 {
		ext := make([]byte, extra)
		if _, err := io.ReadFull(r, ext); err != nil {
			return "", err
		}
		size = 0
		for _, b := range ext {
			size = size<<8 | int(b)
		}
	}
	payload := make([]byte, size)
	_, err := io.ReadFull(r, payload)
	return string(payload), err
}

func TestFramesInOneWrite(t *testing.T) {
	pong := func(n uint64) wire.Frame { return wire.Pong{N: n} }
	o := new(output)
	o.frame(pong(1), false)
	o.frame(pong(2), false)
	o.frame(pong(3), true)
	o.frame(pong(4), true)
	o.text([]byte(`{"t":"x"}`), true)
	if got, want := received(t, o), []string{`{"t":"pong","n":1}`, `[{"t":"pong","n":2},{"t":"pong","n":3},{"t":"pong","n":4},{"t":"x"}]`}; !reflect.DeepEqual(got, want) {
		t.Errorf("messages\n got %q\nwant %q", got, want)
	}
}

func TestFrameOfEverySize(t *testing.T) {
	for _, size := range []int{0, 1, 125, 126, 127, 65_535, 65_536, 100_000} {
		text := strings.Repeat("x", size)
		o := new(output)
		o.frame(wire.Pong{N: 1}, false)
		o.text([]byte(text), false)
		if got := received(t, o); len(got) != 2 || got[1] != text {
			t.Errorf("a frame of %d bytes arrived as %d messages", size, len(got))
		}
	}
}

func TestLargeEventIsNotCopied(t *testing.T) {
	data := []byte(`"` + strings.Repeat("x", wire.LargeFrame) + `"`)
	want := wire.Event{Seq: 7, Stream: "s", Data: data}.Append(nil)
	o := new(output)
	o.frame(wire.Pong{N: 1}, true)
	o.frame(wire.Pong{N: 2}, true)
	o.events("s", 7, [][]byte{data}, true)
	if !o.isFull() || len(o.buf) > 1000 || &o.tail[0] != &data[0] {
		t.Errorf("full %v, %d bytes copied", o.isFull(), len(o.buf))
	}
	got := received(t, o)
	if len(got) != 3 || got[1] != fmt.Sprintf(`{"t":"hb","next":%d,"stream":"s"}`, len(want)) || got[2] != string(want) {
		t.Errorf("%d messages: %.50q", len(got), got)
	}
}

func TestNoPartIsEmpty(t *testing.T) {
	large := make([]byte, wire.BatchBytes+1)
	for name, c := range map[string]struct {
		fill func(o *output)
		want int
	}{
		"a message":          {func(o *output) { o.frame(wire.Pong{N: 1}, true) }, 1},
		"a large one":        {func(o *output) { o.shared("s", nil, large, nil, true) }, 2},
		"with what is after": {func(o *output) { o.shared("s", []byte("<"), large, []byte(">"), true) }, 3},
		"one for many":       {func(o *output) { o.share(o.encode("s", 1, [][]byte{[]byte("1")}), true) }, 1},
	} {
		o := new(output)
		c.fill(o)
		o.finish()
		parts := o.parts()
		if len(parts) != c.want || slices.ContainsFunc(parts, func(p []byte) bool { return len(p) == 0 }) {
			t.Errorf("%s: %d parts, want %d and none empty", name, len(parts), c.want)
		}
	}
}

func TestReleasedOutputHoldsNothing(t *testing.T) {
	o := new(output)
	data := [][]byte{[]byte("1"), []byte("2")}
	o.data = append(o.data, data...)
	o.events("s", 1, o.data, true)
	o.release()
	if o.n != 0 || len(o.buf) != 0 || o.tail != nil || o.sent != 0 || o.data[:cap(o.data)][0] != nil || o.raw[:cap(o.raw)][1] != nil {
		t.Errorf("released: %+v", o)
	}
}

// FuzzClientFrame feeds the reader what a client could send: it must answer with a
// frame or a fault, and never panic.
func FuzzClientFrame(f *testing.F) {
	for _, seed := range []string{
		`{"t":"resume","v":1,"session":"s","gen":1,"after":0,"epoch":"e","subs":{"a":{"after":1,"epoch":"e"},"b":{}},"batch":true}`,
		`{"t":"sub","stream":"a","after":1,"epoch":"e"}`, `{"t":"sub"}`, `{"t":"unsub","stream":"a"}`, `{"t":"unsub"}`,
		`{"t":"msg","id":"1","body":{"a":[1,2,null]}}`, `{"t":"ping","n":1}`, `{"t":"event","seq":1,"data":1}`,
		`[{"t":"ping","n":1}]`, `not-json`, `{}`, "\xff", `{"t":"x"}`, ``,
	} {
		f.Add([]byte(seed))
	}
	s, err := New(Options{OnMessage: func(context.Context, Message) (json.RawMessage, error) { return nil, nil }})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, msg []byte) {
		c := newConn(s, Identity{})
		c.greeting = false
		sess, err := s.store.Attach(t.Context(), Attachment{})
		if err != nil {
			t.Fatal(err)
		}
		c.session, c.user = sess, s.users.entered(c, sess)
		c.follows = []*follow{{conn: c, topic: &topic{feed: sess.Own(), state: &s.topics.ownState}}}
		kept := bytes.Clone(msg)
		err = c.take(msg)
		s.wg.Wait() // the lanes
		if !bytes.Equal(msg, kept) {
			t.Errorf("the message was changed")
		}
		if err != nil {
			fault, ok := err.(*closing) //nolint:errorlint // take returns no other
			if !ok || fault.reason == "" || fault.code == 0 {
				t.Errorf("error %v", err)
			}
		}
		o := new(output)
		_ = c.fill(o)
		for _, text := range received(t, o) {
			if _, err := wire.Decode([]byte(text)); err != nil {
				t.Errorf("answer %q: %v", text, err)
			}
		}
		for _, f := range c.follows {
			f.drop(s)
		}
		s.users.leave(c, sess)
		sess.Detach()
	})
}
