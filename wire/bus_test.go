package wire_test

import (
	"reflect"
	"testing"

	"github.com/longwire/longwire/wire"
)

// fromTabs holds the bus frames that a tab sends, and their only encoding.
var fromTabs = []struct {
	frame wire.Frame
	text  string
}{
	{wire.Have{N: 3, URL: "wss://x/ws?t=1"}, `{"t":"have","n":3,"url":"wss://x/ws?t=1"}`},
	{wire.Have{N: 3, Error: "no login"}, `{"t":"have","n":3,"error":"no login"}`},
	{wire.Kick{Why: "now"}, `{"t":"kick","why":"now"}`},
	{wire.Start{}, `{"t":"start"}`},
	{wire.Stop{}, `{"t":"stop"}`},
	{wire.Reauthorize{}, `{"t":"reauthorize"}`},
	{wire.Cancel{ID: "m1"}, `{"t":"cancel","id":"m1"}`},
	{wire.Msg{ID: "m1", Body: raw(`{"a":1}`)}, `{"t":"msg","id":"m1","body":{"a":1}}`},
}

func TestBusFramesOfTabsReadBack(t *testing.T) {
	for _, g := range fromTabs {
		if got := string(g.frame.Append(nil)); got != g.text {
			t.Errorf("Append(%T)\n got %s\nwant %s", g.frame, got, g.text)
		}
		if got, err := wire.DecodeBus([]byte(g.text)); err != nil || !reflect.DeepEqual(got, g.frame) {
			t.Errorf("DecodeBus(%s)\n got %#v, %v\nwant %#v", g.text, got, err, g.frame)
		}
		if _, ok := g.frame.(wire.Msg); ok {
			continue
		}
		if got := decodeOne(t, g.text); !reflect.DeepEqual(got, wire.Unknown{T: g.frame.Type()}) {
			t.Errorf("Decode(%s) = %#v: a bus frame means something on the wire", g.text, got)
		}
	}
}

func TestBusFramesOfTheHub(t *testing.T) {
	for want, f := range map[string]wire.Frame{
		`{"t":"hub","state":"waiting","reason":"lost","hint":"h","attempt":2,"since":1,"nextRetry":5,"notBefore":4,"session":"s","user":"u","code":1006,"closed":""}`: wire.HubState{
			State: "waiting", Reason: "lost", Hint: "h", Attempt: 2, Since: 1, NextRetry: 5, NotBefore: 4, Session: "s", User: "u", HasClose: true, Code: 1006,
		},
		`{"t":"hub","state":"connecting","resume":true}`:              wire.HubState{State: "connecting", Resume: true},
		`{"t":"hub","state":"ended","cause":"closed"}`:                wire.HubState{State: "ended", Cause: "closed"},
		`{"t":"need","n":1,"what":"url"}`:                             wire.Need{N: 1, What: "url"},
		`{"t":"problem","text":"a \"hole\""}`:                         wire.Problem{Text: `a "hole"`},
		`{"t":"nack","id":"m","code":"expired","outcome":"not-sent"}`: wire.Nack{ID: "m", Code: "expired", Outcome: "not-sent"},
	} {
		if got := string(f.Append(nil)); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
}

func TestBadBusFramesAreErrors(t *testing.T) {
	for text, want := range map[string]string{
		``:                             `wire: frame is not a JSON object`,
		`[]`:                           `wire: "[]": one frame is wanted`,
		`[{"t":"start"},{"t":"stop"}]`: `wire: "[{\"t\":\"start\"},{\"t\":\"stop\"}]": one frame is wanted`,
		`{"t":"have"}`:                 `wire: have: n: missing`,
		`{"t":"have","n":1,"url":7}`:   `wire: have: url: "7": must be a string`,
		`{"t":"cancel"}`:               `wire: cancel: id: must be a string of 1 to 64 bytes`,
	} {
		if _, err := wire.DecodeBus([]byte(text)); err == nil || err.Error() != want {
			t.Errorf("DecodeBus(%s)\n got %v\nwant %s", text, err, want)
		}
	}
}
