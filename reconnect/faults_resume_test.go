package reconnect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// "Too busy to answer" and "can no longer be resumed" are different things: a
// position that survives the first needs no expensive snapshot.
func TestAStreamThatWasBusyIsResumedWhereItStood(t *testing.T) {
	s, conn := following(t)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	conn = s.open()
	s.frame(conn, welcomeWith(`{"a":{"error":"busy","retry":2000}}`))
	for n := range 4 {
		if n > 0 {
			s.frame(conn, `{"t":"subbed","stream":"a","error":"busy","retry":2000}`)
		}
		if lines := s.after(2 * time.Second); !slices.Contains(lines, `write 2 {"t":"sub","stream":"a","after":10,"epoch":"e"}`) {
			t.Fatalf("got %q, want it asked for again from where it stood", lines)
		}
	}
	s.frame(conn, `{"t":"subbed","stream":"a","seq":12,"epoch":"e","first":3,"resync":false}`)
	s.wantFrame(conn, `{"t":"events","from":11,"stream":"a","data":[11,12]}`, "deliver a 11=11 12=12")
	if got := s.m.Totals(); got.Gaps != 0 || got.Snapshots != 0 {
		t.Errorf("got %+v, want no gap and no snapshot", got)
	}
}

// A stream refused for good is not asked for again and again on a connection.
func TestAForbiddenStreamIsNotAskedForInALoop(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a"})
	s.do(reconnect.Subscribe{Stream: "b"})
	conn := s.live(welcomeWith(`{"a":{"error":"forbidden"},"b":{"seq":0,"epoch":"e","first":0,"resync":false}}`))
	for range 100 {
		for _, l := range s.after(15 * time.Second) {
			if l != "live" {
				t.Fatalf("got %q", l)
			}
		}
		s.wantFrame(conn, hb)
	}
}

// The server answers a session that it does not know with a new one: one
// connection is all it takes, and nobody need reload.
func TestAnUnknownSessionCostsNoSecondConnection(t *testing.T) {
	s, conn := following(t)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	conn = s.open()
	s.frame(conn, strings.NewReplacer(`"s1"`, `"s2"`, `"e0"`, `"e9"`).Replace(
		welcomeWith(`{"a":{"seq":3,"epoch":"f","first":0,"resync":true}}`)))
	snapshot := `{"t":"snapshot","seq":3,"epoch":"f","stream":"a","state":[3]}`
	s.wantFrame(conn, snapshot, "deliver "+snapshot, "live")
	s.wantFrame(conn, `{"t":"event","seq":4,"stream":"a","data":4}`, "deliver a 4=4")
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.open()
	write := string(s.last[0].(reconnect.Write).Data)
	if !strings.Contains(write, `"session":"s2"`) || !strings.Contains(write, `"a":{"after":4,"epoch":"f"}`) {
		t.Errorf("resume %s, want the new session and the position behind its snapshot", write)
	}
}

// Events older than a snapshot, events around it, and a hole right behind it.
func TestAnEventThatIsInTheSnapshotIsNotAppliedOnTopOfIt(t *testing.T) {
	for first, want := range map[int][]string{
		9:  {"deliver a 11=11 12=12"},
		11: {"deliver a 11=11 12=12 13=13 14=14"},
		13: {`problem hole in stream "a": got 13 instead of 11`, `write 1 {"t":"sub","stream":"a","after":10,"epoch":"e"}`},
	} {
		s := newScript(t, reconnect.Policy{})
		s.do(reconnect.Subscribe{Stream: "a"})
		conn := s.live(welcomeWith(`{"a":{"seq":8,"epoch":"e","first":0,"resync":true}}`))
		s.wantFrame(conn, `{"t":"event","seq":9,"stream":"a","data":9}`) // before it: for nobody
		s.frame(conn, `{"t":"snapshot","seq":10,"epoch":"e","stream":"a","state":[]}`)
		s.wantFrame(conn, fmt.Sprintf(`{"t":"events","from":%d,"stream":"a","data":[%d,%d,%d,%d]}`, first, first, first+1, first+2, first+3), want...)
	}
}

// Subscriptions come and go during an outage. Each connection asks for what is
// wanted then, once.
func TestEachOfManyReconnectsAsksForEachStreamOnce(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a"})
	s.do(reconnect.Subscribe{Stream: "b"})
	s.do(reconnect.Subscribe{Stream: "s0"})
	answer := `{"seq":1,"epoch":"e","first":0,"resync":false}`
	conn := s.live(welcomeWith(`{"a":` + answer + `,"b":` + answer + `,"s0":` + answer + `}`))
	for n := range 5 {
		s.do(reconnect.Closed{Conn: conn, Code: 1006})
		gone, come := fmt.Sprintf("s%d", n), fmt.Sprintf("s%d", n+1)
		s.do(reconnect.Unsubscribe{Stream: gone})
		s.do(reconnect.Subscribe{Stream: come})
		conn = s.open()
		want := `"subs":{"a":{"after":1,"epoch":"e"},"b":{"after":1,"epoch":"e"},"` + come + `":{}}`
		if write := string(s.last[0].(reconnect.Write).Data); len(s.last) > 2 || !strings.Contains(write, want) {
			t.Fatalf("reconnect %d: got %s\nwant %s", n, write, want)
		}
		lines := s.frame(conn, welcomeWith(`{"a":`+answer+`,"b":`+answer+`,"`+come+`":`+answer+`}`))
		if !slices.Equal(lines, []string{"deliver welcome", "live"}) {
			t.Fatalf("reconnect %d: after the welcome %q", n, lines)
		}
	}
}

// A server that lets a live event overtake the replay: nothing is delivered out of
// order, and the position never goes back.
func TestALiveEventThatOvertakesTheReplayIsDeliveredInOrder(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 1, Epoch: "e"}})
	conn := s.live(welcomeWith(`{"a":{"seq":3,"epoch":"e","first":0,"resync":false}}`))
	var delivered []string
	event := func(seq int) {
		for _, l := range s.frame(conn, fmt.Sprintf(`{"t":"event","seq":%d,"stream":"a","data":%d}`, seq, seq)) {
			if strings.HasPrefix(l, "deliver") {
				delivered = append(delivered, l)
			}
		}
	}
	for _, seq := range []int{4, 2, 3, 4} {
		event(seq)
	}
	s.frame(conn, `{"t":"subbed","stream":"a","seq":4,"epoch":"e","first":0,"resync":false}`)
	for _, seq := range []int{2, 3, 4, 2, 5} {
		event(seq)
	}
	want := []string{"deliver a 2=2", "deliver a 3=3", "deliver a 4=4", "deliver a 5=5"}
	if !slices.Equal(delivered, want) {
		t.Errorf("got %q\nwant %q", delivered, want)
	}
	if pos := s.m.Status().Streams["a"].Position.After; pos != 5 {
		t.Errorf("position %d, want 5", pos)
	}
}
