package hub_test

import (
	"testing"

	"github.com/longwire/longwire/reconnect"
)

// A page on its own: its frames come and go as they stand, without an envelope.
func TestAloneNothingIsPosted(t *testing.T) {
	s := newScript(t, -2)
	s.want(s.own(`{"t":"sub","stream":"a","after":5,"epoch":"e"}`))
	s.want(s.own(`{"t":"msg","id":"m1","body":1}`))
	s.want(s.own(`{"t":"start"}`), "own hub connecting resume", `own {"t":"need","n":1,"what":"url"}`, "own hub connecting")
	s.want(s.own(`{"t":"resume","v":1,"subs":{"a":{"after":5,"epoch":"e"}}}`))
	s.want(s.own(`{"t":"have","n":1,"url":"ws://x"}`), "dial 1 ws://x", "own hub connecting")
	s.want(s.event(reconnect.Opened{Conn: 1}), "own hub connecting",
		`write 1 {"t":"resume","v":1,"gen":1000000,"subs":{"a":{"after":5,"epoch":"e"}},"batch":true}`, "own hub connecting")
	s.want(s.frame(1, welcomeWith(`{"a":{"seq":6,"epoch":"e","first":0,"resync":false}}`)),
		"own "+welcomeWith(`{"a":{"seq":6,"epoch":"e","first":0,"resync":false}}`), "own hub live", `write 1 {"t":"msg","id":"m1","body":1}`)
	event := `{ "t":"event", "seq":6,"stream":"a","data":"as it came" }`
	s.want(s.frame(1, event), "own "+event)
	s.want(s.frame(1, `{"t":"ack","id":"m1"}`), `own {"t":"ack","id":"m1"}`)
	s.want(s.own(`{"t":"unsub","stream":"a"}`), `write 1 {"t":"unsub","stream":"a"}`, "own hub live")
	s.want(s.frame(1, `{"t":"event","seq":7,"stream":"a","data":7}`))
}
