package reconnect_test

import (
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// A relay hands on everything, in order and as it came: whoever holds a position
// drops what it has, and says so when something is missing.
func TestARelayHandsOnEverything(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.want(reconnect.Positions{Streams: map[string]wire.Want{"a": {Has: true, After: 5, Epoch: "e"}, "": {}}}, "idle")
	s.do(reconnect.Start{})
	conn := s.open()
	s.wantFrame(conn, welcomeWith(`{"a":{"seq":7,"epoch":"e","first":0,"resync":false}}`), "deliver welcome", "live")
	s.wantFrame(conn, `{"t":"events","from":6,"stream":"a","data":[6,7]}`, "deliver a 6=6 7=7")
	s.wantFrame(conn, `{"t":"event","seq":6,"stream":"a","data":6}`, "deliver a 6=6")
	s.wantFrame(conn, `{"t":"event","seq":20,"stream":"a","data":20}`, "deliver a 20=20")
	s.wantFrame(conn, `{"t":"event","seq":1,"stream":"b","data":1}`) // nobody wants it

	// Each request is passed on, whatever the relay knows.
	s.want(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 7, Epoch: "e"}},
		`write 1 {"t":"sub","stream":"a","after":7,"epoch":"e"}`, "live")
	s.want(reconnect.Subscribe{Stream: "a"}, `write 1 {"t":"sub","stream":"a"}`, "live")
	// Only the last answer counts.
	s.wantFrame(conn, `{"t":"subbed","stream":"a","seq":20,"epoch":"e","first":0,"resync":false}`)
	last := `{"t":"subbed","stream":"a","seq":20,"epoch":"e","first":0,"resync":true}`
	s.wantFrame(conn, last, "deliver "+last, "live")
	snapshot := `{"t":"snapshot","seq":20,"epoch":"e","stream":"a","state":1}`
	s.wantFrame(conn, snapshot, "deliver "+snapshot, "live")
	s.wantFrame(conn, snapshot, "deliver "+snapshot, "live")

	// Between connections the positions are said anew; on one they are asked for.
	s.want(reconnect.Positions{})
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"c": {}}})
	s.open()
	want := `{"t":"resume","v":1,"session":"s1","gen":1004000,"user":"ada","subs":{"c":{}},"batch":true`
	if write := string(s.last[0].(reconnect.Write).Data); write[:len(want)] != want {
		t.Errorf("got %s\nwant %s…", write, want)
	}
}

// Tabs ask for what a hole has swallowed. A server that sends nothing but holes
// must not be asked in a hot loop, and tabs that ask together must all be heard.
func TestARelayPassesRepeatedRequestsOnSlowly(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	five := wire.Want{Has: true, After: 5, Epoch: "e"}
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": five}})
	conn := s.live(welcomeWith(`{"a":{"seq":9,"epoch":"e","first":0,"resync":false}}`))
	sub := `write 1 {"t":"sub","stream":"a","after":5,"epoch":"e"}`
	for range 3 {
		s.want(reconnect.Subscribe{Stream: "a", From: five}, sub, "live")
	}
	s.want(reconnect.Subscribe{Stream: "a", From: five}, "live")
	s.wantFrame(conn, `{"t":"event","seq":9,"stream":"a","data":9}`, "deliver a 9=9")
	s.wantAfter(999 * time.Millisecond)
	s.wantAfter(time.Millisecond, sub)
	s.want(reconnect.Subscribe{Stream: "a", From: five}, "live")
	s.wantAfter(time.Second, sub)

	// Another position is another request.
	six := wire.Want{Has: true, After: 6, Epoch: "e"}
	s.want(reconnect.Subscribe{Stream: "a", From: six}, `write 1 {"t":"sub","stream":"a","after":6,"epoch":"e"}`, "live")
}
