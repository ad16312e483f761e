package reconnect_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// draining returns a script that follows a at 10 on connection 1, whose node has
// said that it goes away, and whose second connection has sent its resume.
func draining(t *testing.T) *script {
	t.Helper()
	s, conn := following(t)
	s.after(5 * time.Second)
	s.wantFrame(conn, `{"t":"drain","within":4000}`)
	s.wantFrame(conn, `{"t":"drain","within":4000}`) // once
	s.wantAfter(999 * time.Millisecond)
	s.wantAfter(time.Millisecond, "fetch 2") // U(0, within / 2)
	s.want(reconnect.URLReady{Attempt: 2, URL: "ws://x"}, "dial 2")
	s.wantFrame(conn, `{"t":"event","seq":11,"stream":"a","data":11}`, "deliver a 11=11")
	s.want(reconnect.Opened{Conn: 2}, `write 2 {"t":"resume","v":1,"session":"s1","gen":1006000,"user":"ada","subs":{"a":{"after":11,"epoch":"e"}},"batch":true}`)
	return s
}

func TestADrainIsBridgedBeforeTheOldConnectionEnds(t *testing.T) {
	s := draining(t)
	s.want(send("m"), msgLine(1, "m"))
	// The old connection counts until the new welcome.
	s.wantFrame(1, `{"t":"event","seq":12,"stream":"a","data":12}`, "deliver a 12=12")
	if st := s.m.Status(); st.State != reconnect.Live {
		t.Fatalf("got %+v, want live throughout", st)
	}
	// The new node had not seen 12 yet when it answered. What was in flight goes
	// out again: the memory of ids is the same.
	s.wantFrame(2, welcomeWith(`{"a":{"seq":11,"epoch":"e","first":3,"resync":false}}`),
		"abandon 1 1000 moved", "deliver welcome", "live", msgLine(2, "m"))
	s.want(reconnect.Closed{Conn: 1, Code: 4409})
	s.wantFrame(1, `{"t":"event","seq":13,"stream":"a","data":13}`)
	s.wantFrame(2, `{"t":"events","from":12,"stream":"a","data":[12,13]}`, "deliver a 13=13")
	s.wantFrame(2, `{"t":"ack","id":"m"}`, "settle m accepted")
	if st := s.m.Status(); st.Attempt != 0 || st.LastClose != nil {
		t.Errorf("got %+v: a move is no failure", st)
	}
}

func TestTheOldConnectionMayEndOnceTheNewOneHasSentItsResume(t *testing.T) {
	s := draining(t)
	s.want(reconnect.Closed{Conn: 1, Code: 4409}, "live")
	s.wantFrame(2, welcomeWith(`{"a":{"seq":12,"epoch":"e","first":3,"resync":false}}`), "deliver welcome", "live")
	s.wantFrame(2, `{"t":"event","seq":12,"stream":"a","data":12}`, "deliver a 12=12")
	// If then the new one fails as well, that is a loss like any other.
	s = draining(t)
	s.do(reconnect.Closed{Conn: 1, Code: 1012})
	s.want(reconnect.Closed{Conn: 2, Code: 1006}, "waiting 4s")
}

func TestABridgeThatFailsIsNoFailure(t *testing.T) {
	for name, fail := range map[string]func(s *script){
		"closed":     func(s *script) { s.do(reconnect.Closed{Conn: 2, Code: 1013}) },
		"no welcome": func(s *script) { s.after(10 * time.Second) },
		"bad frame":  func(s *script) { s.frame(2, "nonsense") },
	} {
		t.Run(name, func(t *testing.T) {
			s := draining(t)
			fail(s)
			if st := s.m.Status(); st.State != reconnect.Live || st.Attempt != 0 {
				t.Fatalf("got %+v", st)
			}
			s.wantFrame(1, `{"t":"event","seq":12,"stream":"a","data":12}`, "deliver a 12=12")
			s.wantFrame(1, `{"t":"drain","within":0}`, "fetch 3")
			s.want(reconnect.URLFailed{Attempt: 3, Err: "no"}, "problem no second connection beside the first: no URL to dial: no")
			// The drain ends: the ordinary path.
			s.want(reconnect.Closed{Conn: 1, Code: 1012, Reason: "retry=1000-2000"}, "waiting 1.5s")
		})
	}
}

func TestALossBeforeTheResumeEndsTheBridge(t *testing.T) {
	s, conn := following(t)
	s.wantFrame(conn, `{"t":"drain","within":0}`, "fetch 2")
	s.do(reconnect.URLReady{Attempt: 2, URL: "ws://x"})
	s.want(reconnect.Closed{Conn: conn, Code: 1012, Reason: "retry=1000-2000"}, "abandon 2 4001 leaving", "waiting 1.5s")
	s.want(reconnect.Opened{Conn: 2})
	// And both are given up when the page sleeps or the application closes.
	s = draining(t)
	s.want(reconnect.Sleep{}, "abandon 1 4001 leaving", "abandon 2 4001 leaving", "waiting")
	s = draining(t)
	s.want(reconnect.Stop{}, "abandon 1 1000 closed", "abandon 2 1000 closed", "ended closed")
}

func TestASnapshotOnTheNewConnectionReplacesWhatTheOldOneSaid(t *testing.T) {
	s := draining(t)
	s.frame(2, welcomeWith(`{"a":{"seq":3,"epoch":"f","first":0,"resync":true}}`))
	s.wantFrame(2, `{"t":"event","seq":12,"stream":"a","data":12}`)
	lines := s.frame(2, string(wire.Snapshot{HasSeq: true, Seq: 3, Epoch: "f", Stream: "a", State: wire.Raw("1")}.Append(nil)))
	if len(lines) != 2 || !strings.Contains(lines[0], `"seq":3`) {
		t.Errorf("got %q", lines)
	}
	s.wantFrame(2, `{"t":"event","seq":4,"stream":"a","data":4}`, "deliver a 4=4")
}

// Numbering starts anew while the new connection is under way: both tell of it, and what
// the new one says of it is older than what has come on the old one.
func TestAGapThatBothConnectionsOfABridgeTellIsOne(t *testing.T) {
	s := draining(t)
	gap := `{"t":"reset","stream":"a","seq":5,"epoch":"f","first":0,"snapshot":false,"reason":"anew"}`
	s.wantFrame(1, gap, "deliver "+gap, "live")
	s.wantFrame(1, `{"t":"event","seq":6,"stream":"a","data":6}`, "deliver a 6=6")
	s.wantFrame(2, welcomeWith(`{"a":{"seq":2,"epoch":"f","first":0,"resync":true}}`),
		"abandon 1 1000 moved", "deliver welcome", `write 2 {"t":"sub","stream":"a","after":6,"epoch":"f"}`, "live")
	s.wantFrame(2, `{"t":"reset","stream":"a","seq":2,"epoch":"f","first":0,"snapshot":false,"reason":"anew"}`)
	s.wantFrame(2, `{"t":"events","from":3,"stream":"a","data":[3,4]}`)
	answer := `{"t":"subbed","stream":"a","seq":7,"epoch":"f","first":0,"resync":false}`
	s.wantFrame(2, answer, "deliver "+answer+" to 6 f", "live")
	s.wantFrame(2, `{"t":"event","seq":7,"stream":"a","data":7}`, "deliver a 7=7")
}

// The same when the new connection had to ask without a position: the snapshot that was
// awaited on the old one has brought it.
func TestASnapshotOnTheOldConnectionOfABridgeIsNotAskedForTwice(t *testing.T) {
	s, conn := following(t)
	s.after(5 * time.Second)
	s.frame(conn, `{"t":"drain","within":4000}`)
	s.wantAfter(time.Second, "fetch 2")
	s.do(reconnect.URLReady{Attempt: 2, URL: "ws://x"})
	s.frame(conn, `{"t":"reset","stream":"a","seq":5,"epoch":"f","first":0,"snapshot":true,"reason":"anew"}`)
	s.want(reconnect.Opened{Conn: 2}, `write 2 {"t":"resume","v":1,"session":"s1","gen":1006000,"user":"ada","subs":{"a":{}},"batch":true}`)
	s.frame(conn, string(wire.Snapshot{HasSeq: true, Seq: 5, Epoch: "f", Stream: "a", State: wire.Raw("1")}.Append(nil)))
	s.wantFrame(2, welcomeWith(`{"a":{"seq":2,"epoch":"f","first":0,"resync":true}}`),
		"abandon 1 1000 moved", "deliver welcome", `write 2 {"t":"sub","stream":"a","after":5,"epoch":"f"}`, "live")
}

// What the new connection owes to the question of its resume comes behind the answer
// that counts: a reset is no second gap then, as a snapshot is not taken.
func TestAGapIsToldOnceThoughTheNewConnectionStillOwesIt(t *testing.T) {
	anew := func(seq int) string {
		return fmt.Sprintf(`{"t":"reset","stream":"a","seq":%d,"epoch":"f","first":0,"snapshot":false,"reason":"anew"}`, seq)
	}
	// answered has told of the gap on the old connection, and then been answered on the new one.
	answered := func(t *testing.T) *script {
		t.Helper()
		s := draining(t)
		s.wantFrame(1, anew(0), "deliver "+anew(0), "live")
		s.wantFrame(2, welcomeWith(`{"a":{"seq":10,"epoch":"f","first":0,"resync":true}}`),
			"abandon 1 1000 moved", "deliver welcome", `write 2 {"t":"sub","stream":"a","after":0,"epoch":"f"}`, "live")
		answer := `{"t":"subbed","stream":"a","seq":10,"epoch":"f","first":0,"resync":false}`
		s.wantFrame(2, answer, "deliver "+answer+" to 0 f", "live")
		return s
	}
	t.Run("reset", func(t *testing.T) {
		s := answered(t)
		s.wantFrame(2, anew(10))
		s.wantFrame(2, `{"t":"events","from":1,"stream":"a","data":[1,2]}`, "deliver a 1=1 2=2")
		if n := s.m.Totals().Gaps; n != 1 {
			t.Errorf("%d gaps, want 1", n)
		}
	})
	t.Run("snapshot", func(t *testing.T) {
		s := answered(t)
		s.wantFrame(2, string(wire.Snapshot{HasSeq: true, Seq: 10, Epoch: "f", Stream: "a", State: wire.Raw("1")}.Append(nil)))
		s.wantFrame(2, `{"t":"event","seq":1,"stream":"a","data":1}`, "deliver a 1=1")
	})
	t.Run("another gap", func(t *testing.T) {
		for _, gap := range []string{
			strings.Replace(anew(10), `"f"`, `"g"`, 1),
			strings.Replace(anew(10), `"first":0`, `"first":5`, 1),
		} {
			s := answered(t)
			s.wantFrame(2, gap, "deliver "+gap, "live")
			s.wantFrame(2, `{"t":"event","seq":11,"stream":"a","data":11}`, "deliver a 11=11")
		}
	})
	t.Run("after an event", func(t *testing.T) { // the server goes on behind it, maybe
		s := answered(t)
		s.wantFrame(2, `{"t":"event","seq":1,"stream":"a","data":1}`, "deliver a 1=1")
		s.wantFrame(2, anew(10), `write 2 {"t":"sub","stream":"a","after":1,"epoch":"f"}`)
		s.wantFrame(2, `{"t":"event","seq":11,"stream":"a","data":11}`)
		answer := `{"t":"subbed","stream":"a","seq":11,"epoch":"f","first":0,"resync":false}`
		s.wantFrame(2, answer, "deliver "+answer+" to 1 f", "live")
		s.wantFrame(2, `{"t":"events","from":2,"stream":"a","data":[2,3]}`, "deliver a 2=2 3=3")
	})
}

// The session's own stream is answered by the welcome itself.
func TestAGapOfTheOwnStreamThatBothConnectionsTellIsOne(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: ""})
	conn := s.live(welcome)
	s.after(5 * time.Second)
	s.frame(conn, `{"t":"drain","within":4000}`)
	s.wantAfter(time.Second, "fetch 2")
	s.do(reconnect.URLReady{Attempt: 2, URL: "ws://x"})
	s.do(reconnect.Opened{Conn: 2})
	gap := `{"t":"reset","seq":0,"epoch":"e1","first":0,"snapshot":false,"reason":"anew"}`
	s.wantFrame(1, gap, "deliver "+gap, "live")
	again := strings.Replace(welcome, `"seq":0,"epoch":"e0","first":0,"resync":false`, `"seq":3,"epoch":"e1","first":0,"resync":true`, 1)
	s.wantFrame(2, again, "abandon 1 1000 moved", "deliver welcome", `write 2 {"t":"sub","after":0,"epoch":"e1"}`, "live")
	s.wantFrame(2, strings.Replace(gap, `"seq":0`, `"seq":3`, 1))
	answer := `{"t":"subbed","seq":3,"epoch":"e1","first":0,"resync":false}`
	s.wantFrame(2, answer, "deliver "+answer+" to 0 e1", "live")
	s.wantFrame(2, `{"t":"events","from":1,"data":[1,2,3]}`, "deliver  1=1 2=2 3=3")
	if n := s.m.Totals().Gaps; n != 1 {
		t.Errorf("%d gaps, want 1", n)
	}
}

// The new node may not have heard yet that numbering has started anew, or the gap may
// be one of the connection: what it answers is about a position that is over.
func TestAnAnswerAboutAPositionThatIsOverDoesNotCount(t *testing.T) {
	for _, c := range []struct{ name, told, answer, asks, drops string }{
		{
			"the numbering of before", `{"t":"reset","stream":"a","seq":11,"epoch":"f","first":0,"snapshot":false,"reason":"r"}`,
			`{"seq":12,"epoch":"e","first":3,"resync":false}`, `,"after":11,"epoch":"f"`, `{"t":"event","seq":12,"stream":"a","data":12}`,
		},
		{
			"the numbering of before, and a snapshot is to come", `{"t":"reset","stream":"a","seq":11,"epoch":"f","first":0,"snapshot":true,"reason":"r"}`,
			`{"seq":12,"epoch":"e","first":3,"resync":false}`, ``, `{"t":"event","seq":1,"stream":"a","data":1}`,
		},
		{
			"an earlier position of the same numbering", `{"t":"reset","stream":"a","seq":500,"epoch":"e","first":400,"snapshot":false,"reason":"slow"}`,
			`{"seq":505,"epoch":"e","first":405,"resync":true}`, `,"after":500,"epoch":"e"`, `{"t":"event","seq":501,"stream":"a","data":1}`,
		},
		{
			"a position that events have passed", `{"t":"events","from":12,"stream":"a","data":[12,13]}`,
			`{"seq":14,"epoch":"e","first":12,"resync":true}`, `,"after":13,"epoch":"e"`, `{"t":"event","seq":14,"stream":"a","data":1}`,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := draining(t)
			s.frame(1, c.told)
			sub := `write 2 {"t":"sub","stream":"a"` + c.asks + "}"
			s.wantFrame(2, welcomeWith(`{"a":`+c.answer+`}`), "abandon 1 1000 moved", "deliver welcome", sub, "live")
			s.wantFrame(2, c.drops)
		})
	}
}
