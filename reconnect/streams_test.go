package reconnect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// following returns a live script that follows stream a at position 10 of epoch e.
func following(t *testing.T) (*script, uint64) {
	t.Helper()
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 10, Epoch: "e"}})
	conn := s.live(welcomeWith(`{"a":{"seq":10,"epoch":"e","first":3,"resync":false}}`))
	return s, conn
}

func TestEventsMoveThePositionByOneAndByDeliveryOnly(t *testing.T) {
	s, conn := following(t)
	s.wantFrame(conn, `{"t":"event","seq":11,"stream":"a","data":"x"}`, `deliver a 11="x"`)
	s.wantFrame(conn, `{"t":"event","seq":11,"stream":"a","data":"x"}`)
	s.wantFrame(conn, `{"t":"event","seq":4,"stream":"a","data":"x"}`)
	s.wantFrame(conn, `{"t":"events","from":10,"stream":"a","data":[10,11,12,13]}`, "deliver a 12=12 13=13")
	s.wantFrame(conn, `{"t":"event","seq":14,"stream":"b","data":"nobody asked"}`)
	s.wantFrame(conn, `{"t":"events","from":14,"stream":"a","data":[]}`)
	// Several frames in one message.
	s.wantFrame(conn, `[{"t":"event","seq":14,"stream":"a","data":14},{"t":"hb"},{"t":"later"},{"t":"event","seq":15,"stream":"a","data":15}]`,
		"deliver a 14=14", "deliver a 15=15")
	if pos := s.m.Status().Streams["a"].Position; pos != (wire.Want{Has: true, After: 15, Epoch: "e"}) {
		t.Errorf("position %+v", pos)
	}
}

// An application that is handed an event finds the client live.
func TestLiveIsSaidBeforeWhatComesWithTheWelcome(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 10, Epoch: "e"}})
	s.do(reconnect.Start{})
	s.wantFrame(s.open(), "["+welcomeWith(`{"a":{"seq":11,"epoch":"e","first":3,"resync":false}}`)+`,{"t":"event","seq":11,"stream":"a","data":"x"}]`,
		"deliver welcome", "live", `deliver a 11="x"`)
}

func TestAHoleIsNotDeliveredButAskedFor(t *testing.T) {
	s, conn := following(t)
	s.wantFrame(conn, `{"t":"event","seq":13,"stream":"a","data":13}`,
		`problem hole in stream "a": got 13 instead of 11`, `write 1 {"t":"sub","stream":"a","after":10,"epoch":"e"}`)
	s.wantFrame(conn, `{"t":"event","seq":14,"stream":"a","data":14}`) // still the old cursor
	s.wantFrame(conn, `{"t":"subbed","stream":"a","seq":14,"epoch":"e","first":3,"resync":false}`,
		`deliver {"t":"subbed","stream":"a","seq":14,"epoch":"e","first":3,"resync":false} to 10 e`, "live")
	s.wantFrame(conn, `{"t":"events","from":11,"stream":"a","data":[11,12,13,14]}`, "deliver a 11=11 12=12 13=13 14=14")
}

// A server that sends nothing but holes must not be asked in a hot loop.
func TestHolesWithoutEndCostTheConnection(t *testing.T) {
	s, conn := following(t)
	for range 3 {
		s.frame(conn, `{"t":"event","seq":13,"stream":"a","data":13}`)
		s.frame(conn, `{"t":"subbed","stream":"a","seq":14,"epoch":"e","first":3,"resync":false}`)
	}
	s.wantFrame(conn, `{"t":"event","seq":13,"stream":"a","data":13}`,
		`problem hole in stream "a": got 13 instead of 11`, "abandon 1 4400 hole in a stream", "waiting 4s")
}

func TestAResyncVoidsThePositionUntilItsSnapshot(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 10, Epoch: "e"}})
	conn := s.live(welcomeWith(`{"a":{"seq":2,"epoch":"f","first":0,"resync":true}}`))
	s.wantFrame(conn, `{"t":"event","seq":11,"stream":"a","data":1}`)
	s.wantFrame(conn, `{"t":"event","seq":3,"stream":"a","data":1}`)
	// Cut off in between: asked for without a position.
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	conn = s.open()
	if write := string(s.last[0].(reconnect.Write).Data); !strings.Contains(write, `"subs":{"a":{}}`) {
		t.Errorf("resume %s, want stream a without a position", write)
	}
	s.frame(conn, welcomeWith(`{"a":{"seq":2,"epoch":"f","first":0,"resync":true}}`))
	snapshot := `{"t":"snapshot","seq":2,"epoch":"f","stream":"a","state":[1]}`
	s.wantFrame(conn, snapshot, "deliver "+snapshot, "live")
	s.wantFrame(conn, snapshot) // unasked: for nobody
	s.wantFrame(conn, `{"t":"event","seq":3,"stream":"a","data":3}`, "deliver a 3=3")
	// Falling off the log while connected: a reset, then a snapshot.
	reset := `{"t":"reset","stream":"a","seq":90,"epoch":"f","first":80,"snapshot":true,"reason":"slow"}`
	s.wantFrame(conn, reset, "deliver "+reset, "live")
	s.wantFrame(conn, `{"t":"event","seq":4,"stream":"a","data":4}`)
	// And one without a snapshot sets the position itself.
	reset = `{"t":"reset","stream":"a","seq":95,"epoch":"f","first":80,"snapshot":false}`
	s.wantFrame(conn, reset, "deliver "+reset, "live")
	s.wantFrame(conn, `{"t":"event","seq":96,"stream":"a","data":96}`, "deliver a 96=96")
}

func TestAStreamWithoutPositionAndSnapshotStartsFromNow(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a"})
	conn := s.live(welcomeWith(`{"a":{"seq":41,"epoch":"e","first":20,"resync":false}}`))
	// Lost before any event came: the head of the welcome is the position.
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.open()
	if write := string(s.last[0].(reconnect.Write).Data); !strings.Contains(write, `"subs":{"a":{"after":41,"epoch":"e"}}`) {
		t.Errorf("resume %s, want stream a after 41", write)
	}
}

func TestAServerThatResumesWhatItDoesNotCoverIsNotBelieved(t *testing.T) {
	for name, answer := range map[string]string{
		"another epoch":      `{"seq":10,"epoch":"f","first":0,"resync":false}`,
		"beyond the head":    `{"seq":9,"epoch":"e","first":0,"resync":false}`,
		"below what it has":  `{"seq":90,"epoch":"e","first":50,"resync":false}`,
		"no epoch":           `{"seq":10,"first":0,"resync":false}`,
		"a head of nothing":  `{"epoch":"e","first":0,"resync":false}`,
		"no position at all": `{}`,
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reconnect.Policy{})
			s.do(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 10, Epoch: "e"}})
			s.do(reconnect.Start{})
			conn := s.open()
			lines := s.frame(conn, welcomeWith(`{"a":`+answer+`}`))
			if len(lines) != 4 || !strings.Contains(lines[2], `"t":"reset"`) || !strings.Contains(lines[2], `"snapshot":false`) {
				t.Errorf("got %q, want a gap", lines)
			}
		})
	}
}

func TestWhatIsWantedNowIsAskedForOnce(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	for _, name := range []string{"a", "b", "c"} {
		s.do(reconnect.Subscribe{Stream: name})
	}
	all := `{"seq":1,"epoch":"e","first":0,"resync":false}`
	conn := s.live(welcomeWith(`{"a":` + all + `,"b":` + all + `,"c":` + all + `}`))
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.do(reconnect.Unsubscribe{Stream: "b"})
	s.do(reconnect.Subscribe{Stream: "d"})
	conn = s.open()
	if write := string(s.last[0].(reconnect.Write).Data); !strings.Contains(write, `"subs":{"a":{"after":1,"epoch":"e"},"c":{"after":1,"epoch":"e"},"d":{}}`) {
		t.Errorf("resume %s", write)
	}
	// Subscribed while the welcome is under way: asked for when it has come.
	s.do(reconnect.Subscribe{Stream: "e"})
	lines := s.frame(conn, welcomeWith(`{"a":`+all+`,"c":`+all+`,"d":`+all+`}`))
	if want := `write 2 {"t":"sub","stream":"e"}`; lines[1] != want {
		t.Errorf("got %q, want %s", lines, want)
	}
	// Live: by sub and unsub. Only the last answer counts.
	s.want(reconnect.Unsubscribe{Stream: "a"}, `write 2 {"t":"unsub","stream":"a"}`, "live")
	s.want(reconnect.Subscribe{Stream: "a"}, `write 2 {"t":"sub","stream":"a"}`, "live")
	s.want(reconnect.Unsubscribe{Stream: "a"}, `write 2 {"t":"unsub","stream":"a"}`, "live")
	s.want(reconnect.Subscribe{Stream: "a"}, `write 2 {"t":"sub","stream":"a"}`, "live")
	s.wantFrame(conn, `{"t":"subbed","stream":"a","seq":4,"epoch":"e","first":0,"resync":false}`)
	s.wantFrame(conn, `{"t":"event","seq":5,"stream":"a","data":5}`)
	s.wantFrame(conn, `{"t":"subbed","stream":"a","seq":5,"epoch":"e","first":0,"resync":false}`,
		`deliver {"t":"subbed","stream":"a","seq":5,"epoch":"e","first":0,"resync":false}`, "live")
	s.wantFrame(conn, `{"t":"event","seq":6,"stream":"a","data":6}`, "deliver a 6=6")
}

func TestARefusedStreamLeavesTheOthersAlone(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a"})
	s.do(reconnect.Subscribe{Stream: "b"})
	s.do(reconnect.Subscribe{Stream: "c"})
	conn := s.live(welcomeWith(`{"a":{"error":"forbidden"},"b":{"seq":1,"epoch":"e","first":0,"resync":false},"c":{"error":"busy","retry":3000}}`))
	s.wantFrame(conn, `{"t":"event","seq":2,"stream":"b","data":2}`, "deliver b 2=2")
	s.wantAfter(2900 * time.Millisecond)
	s.wantAfter(100*time.Millisecond, `write 1 {"t":"sub","stream":"c"}`)
	// Withdrawn while connected.
	s.wantFrame(conn, `{"t":"subbed","stream":"b","error":"forbidden"}`, `deliver {"t":"subbed","stream":"b","error":"forbidden"}`, "live")
	s.wantFrame(conn, `{"t":"event","seq":3,"stream":"b","data":3}`)
}

func TestBadFramesCostTheConnectionAndMoveNothing(t *testing.T) {
	for _, text := range []string{
		`not json`, `{}`, `null`, `{"t":"event","seq":-1}`, `{"t":"event","seq":1.5}`, `{"t":"event","seq":"11"}`,
		`{"t":"event","seq":9007199254740993}`, `{"t":"events","from":11,"data":1}`, `{"t":"snapshot","stream":"a","state":1}`,
		welcome, `{"t":"msg","id":"x","body":1}`, `{"t":"resume"}`, "\xff", strings.Repeat("[", 1<<20),
	} {
		s, conn := following(t)
		lines := s.frame(conn, text)
		if len(lines) != 3 || !strings.HasPrefix(lines[0], "problem bad message") || !strings.HasPrefix(lines[1], "abandon 1 4400") || lines[2] != "waiting 4s" {
			t.Errorf("%.40s: got %q", text, lines)
		}
		if pos := s.m.Status().Streams["a"].Position; pos.After != 10 {
			t.Errorf("%.40s: position %+v", text, pos)
		}
	}
	s, conn := following(t)
	s.want(reconnect.Received{Conn: conn, Data: []byte("x"), Binary: true},
		"problem bad message from the server: a binary message", "abandon 1 4400 a binary message", "waiting 4s")
	// Before the welcome nothing else is taken.
	s = newScript(t, reconnect.Policy{})
	s.do(reconnect.Start{})
	s.wantFrame(s.open(), `{"t":"ack","id":"x"}`,
		"problem bad message from the server: ack before the welcome", "abandon 1 4400 ack before the welcome", "waiting 250ms")
}

// The base frames alone: a server that knows no version, no epochs, no batches.
func TestAServerOfTheBaseFrames(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: ""})
	s.do(reconnect.Subscribe{Stream: "named"})
	s.do(reconnect.Start{})
	conn := s.open()
	lines := s.frame(conn, `{"t":"welcome","session":"s9","seq":4,"resync":false}`)
	if len(lines) != 3 || lines[0] != "deliver welcome" || lines[1] != `deliver {"t":"subbed","stream":"named","error":"this server knows no named streams"}` || lines[2] != "live" {
		t.Errorf("got %q", lines)
	}
	s.wantFrame(conn, `{"t":"event","seq":5,"price":3}`, `deliver  5={"price":3}`)
	s.do(reconnect.Send{ID: "m1", Body: wire.Raw("1")})
	s.wantAfter(time.Hour, "live", `settle m1 unknown  expired`) // no heartbeat, so no idle timeout; no ping
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	conn = s.open()
	if write := string(s.last[0].(reconnect.Write).Data); !strings.Contains(write, `"session":"s9"`) || !strings.Contains(write, `"after":5,"epoch":"s9"`) {
		t.Errorf("resume %s", write)
	}
	s.frame(conn, `{"t":"welcome","session":"s9","seq":7,"resync":true}`)
	s.wantFrame(conn, `{"t":"snapshot","state":"all"}`, `deliver {"t":"snapshot","seq":7,"epoch":"s9","state":"all"}`, "live")
	// A hole is healed by a reconnect.
	s.wantFrame(conn, `{"t":"event","seq":9,"price":3}`, `problem hole in stream "": got 9 instead of 8`, "abandon 2 4400 hole in a stream", "waiting 8s")
}

// The server always follows the own stream, and takes no unsub for it.
func TestTheOwnStreamIsUnsubscribedWithoutAWord(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{})
	conn := s.live(welcome)
	s.want(reconnect.Unsubscribe{}, "live")
	s.wantFrame(conn, `{"t":"event","seq":1,"data":1}`)
	s.want(reconnect.Subscribe{}, `write 1 {"t":"sub"}`, "live")
}

// A server says once more that there is a gap when numbering starts anew meanwhile.
func TestAGapWhoseSnapshotIsStillToComeIsSaidOnce(t *testing.T) {
	s, conn := following(t)
	gap := func(epoch string, snapshot bool) string {
		return string(wire.Reset{Stream: "a", Seq: 2, Epoch: epoch, Snapshot: snapshot, Reason: "anew"}.Append(nil))
	}
	s.wantFrame(conn, gap("f", true), "deliver "+gap("f", true), "live")
	s.wantFrame(conn, gap("g", true))
	s.wantFrame(conn, gap("g", false), "deliver "+gap("g", false), "live") // there is no snapshot after all
	s.wantFrame(conn, gap("h", true), "deliver "+gap("h", true), "live")
	if n := s.m.Totals().Gaps; n != 2 {
		t.Errorf("%d gaps, want 2", n)
	}
}

// A resync voids the position, the connection is cut before what bridges it came,
// and by then the stream is known to have no snapshot: that must not pass for
// "from now on".
func TestAGapThatWasCutOffIsSaid(t *testing.T) {
	const fromNow = `{"a":{"seq":9,"epoch":"f","first":4,"resync":false}}`
	const said = `deliver {"t":"reset","stream":"a","seq":9,"epoch":"f","first":4,"snapshot":false,"reason":"what was missed is gone"}`
	for name, void := range map[string]func(s *script, conn uint64){
		"resync": func(s *script, conn uint64) {
			s.do(reconnect.Closed{Conn: conn, Code: 1006})
			s.frame(s.open(), welcomeWith(`{"a":{"seq":9,"epoch":"f","first":4,"resync":true}}`))
		},
		"reset": func(s *script, conn uint64) {
			s.frame(conn, `{"t":"reset","stream":"a","seq":9,"epoch":"f","first":4,"snapshot":true,"reason":"slow"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, conn := following(t)
			void(s, conn)
			for range 2 { // connections 1 and 2
				s.do(reconnect.Closed{Conn: conn, Code: 1006})
				conn++
			}
			conn = s.open()
			s.wantFrame(conn, welcomeWith(fromNow), "deliver welcome", said, "live")
			s.wantFrame(conn, `{"t":"event","seq":10,"stream":"a","data":10}`, "deliver a 10=10")
		})
	}
}

// Whoever loses the session for good loses its own stream, and is told.
func TestAForgottenSessionIsAGapOfItsStream(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{})
	conn := s.live(welcome)
	s.frame(conn, `{"t":"event","seq":1,"data":1}`)
	for range 4 { // four within a minute
		s.do(reconnect.Closed{Conn: conn, Code: 4409})
		conn = s.open()
		if s.m.Status().Session == "" {
			break
		}
		s.frame(conn, welcome)
	}
	other := strings.Replace(welcome, `"s1"`, `"s2"`, 1)
	s.wantFrame(conn, strings.Replace(other, `"e0"`, `"e2"`, 1), "deliver welcome",
		`deliver {"t":"reset","seq":0,"epoch":"e2","first":0,"snapshot":false,"reason":"what was missed is gone"}`, "live")
}

// A welcome that was under way answers the subscription it was asked for, not the
// next one of the same stream.
func TestAWelcomeDoesNotAnswerALaterSubscription(t *testing.T) {
	for _, relay := range []bool{false, true} {
		s := newScript(t, reconnect.Policy{Relay: relay})
		s.do(reconnect.Subscribe{Stream: "a"})
		s.do(reconnect.Start{})
		conn := s.open()
		s.do(reconnect.Unsubscribe{Stream: "a"})
		s.do(reconnect.Subscribe{Stream: "a"})
		s.wantFrame(conn, welcomeWith(`{"a":{"seq":0,"epoch":"e","first":0,"resync":false}}`),
			"deliver welcome", `write 1 {"t":"sub","stream":"a"}`, "live")
		for _, a := range s.last {
			if d, ok := a.(reconnect.Deliver); ok && (d.Text != nil || len(d.Frame.(wire.Welcome).Subs) != 0) {
				t.Errorf("relay %v: the welcome handed on still answers: %+v", relay, d)
			}
		}
	}
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a"})
	s.do(reconnect.Start{})
	conn := s.open()
	s.do(reconnect.Unsubscribe{Stream: "a"})
	s.do(reconnect.Subscribe{Stream: "a"})
	s.frame(conn, welcomeWith(`{"a":{"seq":0,"epoch":"e","first":0,"resync":false}}`))
	s.wantFrame(conn, `{"t":"event","seq":1,"stream":"a","data":1}`)
	last := `{"t":"subbed","stream":"a","seq":5,"epoch":"e","first":0,"resync":false}`
	s.wantFrame(conn, last, "deliver "+last, "live")
	s.wantFrame(conn, `{"t":"event","seq":5,"stream":"a","data":5}`)
	s.wantFrame(conn, `{"t":"event","seq":6,"stream":"a","data":6}`, "deliver a 6=6")
}
