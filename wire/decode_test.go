package wire_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/longwire/longwire/wire"
)

// raw marks the payloads in the tables below.
func raw(s string) wire.Raw { return wire.Raw(s) }

// golden holds every frame with every field, and its only encoding.
var golden = []struct {
	frame wire.Frame
	text  string
}{
	{
		wire.Resume{
			V: 1, Session: "s1", Gen: 7, User: "ada", Own: wire.Want{Has: true, After: 3, Epoch: "e"},
			Subs:  map[string]wire.Want{"b": {}, "a": {Has: true, After: 0, Epoch: "x"}},
			Batch: true, Away: 1500,
		},
		`{"t":"resume","v":1,"session":"s1","gen":7,"user":"ada","after":3,"epoch":"e","subs":{"a":{"after":0,"epoch":"x"},"b":{}},"batch":true,"away":1500}`,
	},
	{wire.Resume{}, `{"t":"resume"}`},
	{wire.Sub{Stream: "a", Want: wire.Want{Has: true, After: 9, Epoch: "e"}}, `{"t":"sub","stream":"a","after":9,"epoch":"e"}`},
	{wire.Sub{}, `{"t":"sub"}`},
	{wire.Unsub{Stream: "a"}, `{"t":"unsub","stream":"a"}`},
	{wire.Msg{ID: "m1", Body: raw(`{"x":[1,2]}`)}, `{"t":"msg","id":"m1","body":{"x":[1,2]}}`},
	{wire.Ping{N: 4}, `{"t":"ping","n":4}`},
	{
		wire.Welcome{
			V: 1, Session: "s1", Gen: 7, User: "ada", Own: wire.Answer{Seq: 5, Epoch: "e", First: 2, Resync: true},
			Heartbeat: 15000, MaxFrame: 65536, Window: 32, Spread: 8000, DedupeID: "d", DedupeMs: 600000,
			Subs: map[string]wire.Answer{"a": {Seq: 1, Epoch: "f", First: 0}, "b": {Error: "busy", Retry: 50}},
		},
		`{"t":"welcome","v":1,"session":"s1","gen":7,"user":"ada","seq":5,"epoch":"e","first":2,"resync":true,"heartbeat":15000,"maxFrame":65536,"window":32,"spread":8000,"dedupe":{"id":"d","ms":600000},"subs":{"a":{"seq":1,"epoch":"f","first":0,"resync":false},"b":{"error":"busy","retry":50}}}`,
	},
	{wire.Subbed{Stream: "a", Answer: wire.Answer{Error: "forbidden"}}, `{"t":"subbed","stream":"a","error":"forbidden"}`},
	{wire.Event{Seq: 1, Stream: "a", Data: raw(`"x"`)}, `{"t":"event","seq":1,"stream":"a","data":"x"}`},
	{wire.Events{From: 4, Stream: "a", Data: []wire.Raw{raw("1"), raw("{}")}}, `{"t":"events","from":4,"stream":"a","data":[1,{}]}`},
	{wire.Snapshot{HasSeq: true, Seq: 8, Epoch: "e", Stream: "a", State: raw("[]")}, `{"t":"snapshot","seq":8,"epoch":"e","stream":"a","state":[]}`},
	{wire.Snapshot{State: raw("null")}, `{"t":"snapshot","state":null}`},
	{
		wire.Reset{Stream: "a", Seq: 8, Epoch: "e", First: 3, Snapshot: true, Reason: "gap"},
		`{"t":"reset","stream":"a","seq":8,"epoch":"e","first":3,"snapshot":true,"reason":"gap"}`,
	},
	{wire.Ack{ID: "m1", Result: raw("7")}, `{"t":"ack","id":"m1","result":7}`},
	{wire.Ack{ID: "m1"}, `{"t":"ack","id":"m1"}`},
	{wire.Nack{ID: "m1", Code: "busy", Reason: "full", HasRetry: true}, `{"t":"nack","id":"m1","code":"busy","reason":"full","retry":0}`},
	{wire.Heartbeat{Next: 9, Stream: "a", Stale: 3}, `{"t":"hb","next":9,"stream":"a","stale":3}`},
	{wire.Pong{N: 0}, `{"t":"pong","n":0}`},
	{wire.Drain{Within: 4000}, `{"t":"drain","within":4000}`},
	{wire.Unknown{T: `new"kind`}, `{"t":"new\"kind"}`},
}

// plain drops what only a received frame has.
func plain(f wire.Frame) wire.Frame {
	if e, ok := f.(wire.Event); ok {
		e.Text = nil
		return e
	}
	return f
}

func decodeOne(t *testing.T, text string) wire.Frame {
	t.Helper()
	frames, err := wire.Decode([]byte(text))
	if err != nil || len(frames) != 1 {
		t.Fatalf("Decode(%s) = %d frames, %v; want one", text, len(frames), err)
	}
	return frames[0]
}

func TestEveryFrameHasOneEncodingAndReadsBack(t *testing.T) {
	for _, g := range golden {
		if got := string(g.frame.Append(nil)); got != g.text {
			t.Errorf("Append(%T)\n got %s\nwant %s", g.frame, got, g.text)
		}
		if got := plain(decodeOne(t, g.text)); !reflect.DeepEqual(got, g.frame) {
			t.Errorf("Decode(%s)\n got %#v\nwant %#v", g.text, got, g.frame)
		}
	}
}

func TestAnArrayIsManyFrames(t *testing.T) {
	var text []string
	for _, g := range golden {
		text = append(text, g.text)
	}
	frames, err := wire.Decode([]byte(" [ " + strings.Join(text, " , ") + " ] "))
	if err != nil || len(frames) != len(golden) {
		t.Fatalf("got %d frames, %v; want %d", len(frames), err, len(golden))
	}
	for i, f := range frames {
		if !reflect.DeepEqual(plain(f), golden[i].frame) {
			t.Errorf("frame %d: got %#v want %#v", i, f, golden[i].frame)
		}
	}
	if frames, err := wire.Decode([]byte("[]")); err != nil || len(frames) != 0 {
		t.Errorf("[]: got %v, %v; want no frame and no error", frames, err)
	}
}

func TestWhatIsUnknownPasses(t *testing.T) {
	for text, want := range map[string]wire.Frame{
		`{"extra":{"t":"x"},"t":"ping","n":1,"more":[1]}`:             wire.Ping{N: 1},
		`{"n":1,"t":"ping"}`:                                          wire.Ping{N: 1},
		`{"\u0074":"pi\u006eg","n":1}`:                                wire.Ping{N: 1},
		`{"t":"ping","n":2,"n":1}`:                                    wire.Ping{N: 1},
		`{"t":"resume","session":null,"after":null,"subs":null}`:      wire.Resume{},
		`{"data":[1],"from":1,"t":"events"}`:                          wire.Events{From: 1, Data: []wire.Raw{raw("1")}},
		`{"t":"events","from":1,"data":[]}`:                           wire.Events{From: 1},
		`{"t":"ack","id":"\ud83d\ude00\n\ud83d"}`:                     wire.Ack{ID: "😀\n\uFFFD"},
		`{"t":"later","n":"not a number"}`:                            wire.Unknown{T: "later"},
		`{"t":"welcome","session":"s","seq":4,"resync":true}`:         wire.Welcome{Session: "s", Own: wire.Answer{Seq: 4, Resync: true}},
		`{"t":"snapshot","state":{"a":1}}`:                            wire.Snapshot{State: raw(`{"a":1}`)},
		"\t{ \"t\" : \"ping\" ,\n\"n\" : 9007199254740991 }\r\n":      wire.Ping{N: wire.MaxSeq},
		`{"t":"nack","id":"x","code":"c","retry":null}`:               wire.Nack{ID: "x", Code: "c"},
		`{"t":"msg","id":"x","body":` + nested(400) + `}`:             wire.Msg{ID: "x", Body: raw(nested(400))},
		`{"t":"subbed","stream":"a","seq":1,"epoch":"e","first":1}`:   wire.Subbed{Stream: "a", Answer: wire.Answer{Seq: 1, Epoch: "e", First: 1}},
		`{"t":"msg","id":"x","body":"A","body":-1.5e+3}`:              wire.Msg{ID: "x", Body: raw("-1.5e+3")},
		`{"t":"resume","subs":{"a":{"after":1,"unknown":true}}}`:      wire.Resume{Subs: map[string]wire.Want{"a": {Has: true, After: 1}}},
		`{"t":"hb","next":0,"from":"elsewhere","data":{"not":"arr"}}`: wire.Heartbeat{},
	} {
		if got := plain(decodeOne(t, text)); !reflect.DeepEqual(got, want) {
			t.Errorf("Decode(%s)\n got %#v\nwant %#v", text, got, want)
		}
	}
}

func nested(depth int) string { return strings.Repeat("[", depth) + strings.Repeat("]", depth) }

func TestErrorsNameFrameFieldAndValue(t *testing.T) {
	for text, want := range map[string]string{
		``:                                  `wire: frame is not a JSON object`,
		`not json`:                          `wire: "not json": frame is not a JSON object`,
		`{}`:                                `wire: t: "{}": missing, or not a string`,
		`null`:                              `wire: "null": frame is not a JSON object`,
		`[null]`:                            `wire: "null": frame is not a JSON object`,
		`[{"t":"ping","n":1},]`:             `wire: "[{\"t\":\"ping\",\"n\":1},]": message is not valid JSON`,
		`{"t":"ping","n":1}x`:               `wire: ping: "{\"t\":\"ping\",\"n\":1}x": frame is not valid JSON`,
		`{"t":"ping","n":1,}`:               `wire: ping: "{\"t\":\"ping\",\"n\":1,}": frame is not valid JSON`,
		`{"t":5,"n":1}`:                     `wire: t: "{\"t\":5,\"n\":1}": missing, or not a string`,
		`{"t":"ping"}`:                      `wire: ping: n: missing`,
		`{"t":"ping","n":-1}`:               `wire: ping: n: "-1": must be an integer from 0 to 2^53-1`,
		`{"t":"ping","n":1.5}`:              `wire: ping: n: "1.5": must be an integer from 0 to 2^53-1`,
		`{"t":"ping","n":"1"}`:              `wire: ping: n: "\"1\"": must be an integer from 0 to 2^53-1`,
		`{"t":"ping","n":9007199254740992}`: `wire: ping: n: "9007199254740992": must be an integer from 0 to 2^53-1`,
		`{"t":"ping","n":99999999999999999999999}`:           `wire: ping: n: "99999999999999999999999": must be an integer from 0 to 2^53-1`,
		`{"t":"event","data":1}`:                             `wire: event: seq: missing`,
		`{"t":"event","seq":1,"stream":"a b"}`:               `wire: event: stream: "\"a b\"": must be 1 to 128 bytes of [A-Za-z0-9._:/-]`,
		`{"t":"events","from":1,"data":{}}`:                  `wire: events: data: "{}": must be an array`,
		`{"t":"events","from":0,"data":[1]}`:                 `wire: events: from: "0": numbers run from 1 to 2^53-1`,
		`{"t":"msg","id":"","body":1}`:                       `wire: msg: id: "\"\"": must be a string of 1 to 64 bytes`,
		`{"t":"msg","id":7,"body":1}`:                        `wire: msg: id: "7": must be a string`,
		`{"t":"msg","id":"a"}`:                               `wire: msg: body: missing`,
		`{"t":"msg","id":"a","body":NaN}`:                    `wire: msg: "{\"t\":\"msg\",\"id\":\"a\",\"body\":NaN}": frame is not valid JSON`,
		`{"t":"resume","batch":1}`:                           `wire: resume: batch: "1": must be true or false`,
		`{"t":"resume","session":{"token":1}}`:               `wire: resume: session: must be a string`,
		`{"t":"resume","subs":[]}`:                           `wire: resume: subs: "[]": must be an object`,
		`{"t":"resume","subs":{"a":1}}`:                      `wire: resume: subs.a: "1": must be an object`,
		`{"t":"resume","subs":{"a":{"after":"x"}}}`:          `wire: resume: subs.a.after: "\"x\"": must be an integer from 0 to 2^53-1`,
		`{"t":"resume","subs":{"a b":{}}}`:                   `wire: resume: subs.a b: stream name must be 1 to 128 bytes of [A-Za-z0-9._:/-]`,
		`{"t":"welcome"}`:                                    `wire: welcome: session: missing`,
		`{"t":"welcome","session":"s","dedupe":3}`:           `wire: welcome: dedupe: "3": must be an object`,
		`{"t":"ack","id":"` + strings.Repeat("x", 65) + `"}`: `wire: ack: id: "\"` + strings.Repeat("x", 39) + `": is too long`,
		"{\"t\":\"ping\",\"n\":\"\xff\"}":                    `wire: message is not valid UTF-8`,
		`{"t":"msg","id":"x","body":` + nested(513) + `}`:    `wire: msg: "{\"t\":\"msg\",\"id\":\"x\",\"body\":[[[[[[[[[[[[[": frame is not valid JSON`,
	} {
		_, err := wire.Decode([]byte(text))
		var e *wire.Error
		if !errors.As(err, &e) || err.Error() != want {
			t.Errorf("Decode(%s)\n got %v\nwant %s", text, err, want)
		}
	}
}

func TestRestOfAnEventIsThePayloadOfABaseServer(t *testing.T) {
	f := decodeOne(t, `{"price":3, "t":"event","a\"b":[ ],"seq":5}`).(wire.Event)
	if got, want := string(f.Rest()), `{"price":3,"a\"b":[ ]}`; got != want || !json.Valid(f.Rest()) {
		t.Errorf("Rest() = %s, want %s", got, want)
	}
}

// FuzzDecode checks three things on any input: what is accepted is valid JSON,
// what encoding/json refuses is refused, and what was read reads the same after
// it was written again.
func FuzzDecode(f *testing.F) {
	for _, g := range golden {
		f.Add([]byte(g.text))
	}
	f.Add([]byte(`[{"t":"event","seq":1,"x":"\u00e9"},{"t":"ping","n":1e3}]`))
	f.Fuzz(func(t *testing.T, msg []byte) {
		frames, err := wire.Decode(msg)
		if err != nil {
			return
		}
		if !json.Valid(msg) {
			t.Fatalf("accepted what is not JSON: %q", msg)
		}
		for _, frame := range frames {
			text := frame.Append(nil)
			again, err := wire.Decode(text)
			if err != nil {
				t.Fatalf("read %q, wrote %q: %v", msg, text, err)
			}
			if got, want := plain(again[0]), plain(frame); !reflect.DeepEqual(normal(got), normal(want)) {
				t.Fatalf("wrote %q\n got %#v\nwant %#v", text, got, want)
			}
		}
	})
}

// normal removes the differences that mean nothing: an absent payload is written
// as null, and an answer with an error has no other fields.
func normal(f wire.Frame) wire.Frame {
	clean := func(a wire.Answer) wire.Answer {
		if a.Error != "" {
			return wire.Answer{Error: a.Error, Retry: a.Retry}
		}
		a.Retry = 0
		return a
	}
	want := func(w wire.Want) wire.Want {
		if !w.Has {
			return wire.Want{}
		}
		return w
	}
	switch f := f.(type) {
	case wire.Event:
		if f.Data == nil {
			f.Data = raw("null")
		}
		return f
	case wire.Events:
		if len(f.Data) == 0 {
			f.Data = nil
		}
		return f
	case wire.Subbed:
		f.Answer = clean(f.Answer)
		return f
	case wire.Sub:
		f.Want = want(f.Want)
		return f
	case wire.Welcome:
		f.Own = clean(f.Own)
		if f.DedupeID == "" {
			f.DedupeMs = 0
		}
		for k, a := range f.Subs {
			f.Subs[k] = clean(a)
		}
		if len(f.Subs) == 0 {
			f.Subs = nil
		}
		return f
	case wire.Resume:
		f.Own = want(f.Own)
		for k, w := range f.Subs {
			f.Subs[k] = want(w)
		}
		if len(f.Subs) == 0 {
			f.Subs = nil
		}
		return f
	}
	return f
}
