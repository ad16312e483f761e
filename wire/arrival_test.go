package wire_test

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/longwire/longwire/wire"
)

func TestDecodeArrivals(t *testing.T) {
	text := `[ "{\"t\":\"pong\",\"n\":1}", 12, [0,210,"a/b",7,3],"é\u00e9", [9007199254740991,0,"",1,0], "" ]`
	got, ok := wire.DecodeArrivals([]byte(text))
	want := []wire.Arrival{
		{Text: []byte(`{"t":"pong","n":1}`)},
		{Binary: true, Size: 12},
		{Text: []byte("0"), Size: 210, Frame: wire.Events{Stream: "a/b", From: 7, Data: make([]wire.Raw, 3)}},
		{Text: []byte("éé")},
		{Text: []byte("9007199254740991"), Frame: wire.Events{From: 1, Data: []wire.Raw{}}},
		{Text: []byte("")},
	}
	if !ok || !reflect.DeepEqual(got, want) {
		t.Errorf("\n got %+v, %t\nwant %+v", got, ok, want)
	}
}

var notArrivals = []string{
	``, `7`, `{}`, `[`, `[]]`, `["a]`, `[{}]`, `[null]`, `[-1]`, `[1.5]`, `[[]]`,
	`[[0,0,"a",1]]`, `[[0,0,"a",1,1,1]]`, // too few, too many
	`[["0",0,"a",1,1]]`, `[[0,-1,"a",1,1]]`, `[[0,0,7,1,1]]`, `[[0,0,"a b",1,1]]`, `[[0,0,"a",0,1]]`, `[[0,0,"a",1,null]]`,
	`[[0,0,"a",9007199254740991,2]]`, // numbers behind the last one
	`[[0,0,"a",1,1048577]]`,          // more than fit into a message
}

func TestDecodeArrivalsRefuses(t *testing.T) {
	for _, text := range notArrivals {
		if got, ok := wire.DecodeArrivals([]byte(text)); ok {
			t.Errorf("%s was read as %+v", text, got)
		}
	}
}

// FuzzArrivals checks on any input that it does not fail, and takes nothing but arrays.
func FuzzArrivals(f *testing.F) {
	f.Add([]byte(`["{}",12,[0,210,"a/b",7,3]]`))
	for _, text := range notArrivals {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		all, ok := wire.DecodeArrivals(text)
		if !ok {
			return
		}
		var elements []json.RawMessage
		if err := json.Unmarshal(text, &elements); err != nil || len(elements) != len(all) {
			t.Fatalf("%q was read as %d arrivals: %v", text, len(all), err)
		}
	})
}
