package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// office brings a hub into office that knows of nobody else, and returns it with its
// socket open: the tabs are waited for, 100 ms at most.
func office(t *testing.T) *script {
	t.Helper()
	s := newScript(t, -1)
	s.want(s.own(`{"t":"start"}`), "own hub connecting resume beat", "all hub connecting resume beat", `own {"t":"need","n":1,"what":"url"}`, "own hub connecting")
	s.own(`{"t":"resume","own":false}`)
	s.want(s.own(`{"t":"have","n":1,"url":"ws://x"}`), "dial 1 ws://x", "own hub connecting")
	s.want(s.event(reconnect.Opened{Conn: 1}))
	return s
}

// live is office with a welcome, and the tab t2 that follows a.
func live(t *testing.T) *script {
	t.Helper()
	s := office(t)
	s.from("t2", `{"t":"resume","own":false,"subs":{"a":{"after":5,"epoch":"e"}}}`)
	s.after(100 * time.Millisecond)
	s.frame(1, welcomeWith(`{"a":{"seq":5,"epoch":"e","first":0,"resync":false}}`))
	return s
}

// A connection is asked for from the lowest position of the epoch that the tab knows
// that was served last; for the others the server is asked one by one, and the
// answers go to those who asked.
func TestTheTabsOfAConnection(t *testing.T) {
	s := office(t)
	s.want(s.from("t2", `{"t":"resume","gen":7,"session":"s0","own":false,"subs":{"a":{"after":5,"epoch":"new"}}}`))
	s.want(s.from("t3", `{"t":"resume","gen":6,"own":false,"subs":{"a":{"after":3,"epoch":"new"}}}`))
	s.want(s.from("t4", `{"t":"resume","gen":5,"own":false,"subs":{"a":{"after":9,"epoch":"old"},"b":{}}}`))
	s.want(s.from("t5", `{"t":"resume","own":false,"subs":{"a":{}}}`))
	s.want(s.after(99 * time.Millisecond))
	s.want(s.after(time.Millisecond), "own hub connecting", "all hub connecting", "own hub connecting",
		`write 1 {"t":"resume","v":1,"session":"s0","gen":1000000,"subs":{"a":{"after":3,"epoch":"new"},"b":{}},"batch":true}`,
		"own hub connecting", "all hub connecting")
	a, b := `"a":{"seq":7,"epoch":"new","first":2,"resync":false}`, `"b":{"seq":1,"epoch":"x","first":0,"resync":true}`
	bare := func(subs string) string {
		return `{"t":"welcome","v":1,"session":"s1","gen":1,"user":"ada","error":"busy","heartbeat":15000,"spread":1000,"dedupe":{"id":"d1","ms":600000}` + subs + "}"
	}
	s.want(s.frame(1, welcomeWith("{"+a+","+b+"}")),
		"own "+bare(""), "t2 "+bare(`,"subs":{`+a+"}"), "t3 "+bare(`,"subs":{`+a+"}"), "t4 "+bare(`,"subs":{`+b+"}"), "t5 "+bare(""),
		"own hub live", "all hub live",
		`write 1 {"t":"sub","stream":"a","after":9,"epoch":"old"}`, "own hub live",
		`write 1 {"t":"sub","stream":"a"}`, "own hub live")
	old := `{"t":"subbed","stream":"a","seq":7,"epoch":"new","first":2,"resync":true}`
	s.want(s.frame(1, old), "t4 "+old, "own hub live")
	s.want(s.frame(1, old), "t5 "+old, "own hub live")
	s.want(s.frame(1, old), `own {"t":"problem","text":"an answer for a stream nobody asked for"}`)
}

func TestALateTabIsAnsweredOnItsOwn(t *testing.T) {
	s := live(t)
	s.want(s.fromAt(0, "t3", `{"t":"here","own":false,"ask":true}`), "own hub live", "all hub live", "t3 hub live resume")
	bare := `{"t":"welcome","v":1,"session":"s1","gen":1,"user":"ada","error":"busy","heartbeat":15000,"spread":1000,"dedupe":{"id":"d1","ms":600000}}`
	sub := `write 1 {"t":"sub","stream":"a"}`
	s.want(s.from("t3", `{"t":"resume","own":false,"subs":{"a":{}}}`), "t3 "+bare, sub, "own hub live")
	// Who asks the same meanwhile is answered by the same.
	s.fromAt(0, "t4", `{"t":"here","own":false}`)
	s.want(s.from("t4", `{"t":"resume","own":false,"subs":{"a":{}}}`), "t4 "+bare)
	answer := `{"t":"subbed","stream":"a","seq":5,"epoch":"e","first":0,"resync":true}`
	s.want(s.frame(1, answer), "t3 "+answer, "t4 "+answer, "own hub live") // one more tab
	// Everybody who wants the stream gets what comes of it, and nobody else.
	event := `{"t":"event","seq":6,"stream":"a","data":6}`
	s.want(s.frame(1, event), "all "+event)
	s.want(s.own(`{"t":"sub","stream":"a","after":6,"epoch":"e"}`), `write 1 {"t":"sub","stream":"a","after":6,"epoch":"e"}`, "own hub live")
	s.want(s.frame(1, event), "own "+event, "all "+event)
	for _, tab := range []string{"t2", "t3"} {
		s.want(s.from(tab, `{"t":"unsub","stream":"a"}`))
	}
	s.want(s.from("t4", `{"t":"bye"}`), "own hub live", "all hub live")
	s.want(s.frame(1, event), "own "+event)
	s.want(s.own(`{"t":"unsub","stream":"a"}`), `write 1 {"t":"unsub","stream":"a"}`, "own hub live")
}

func TestARefusalIsForEverybody(t *testing.T) {
	s := live(t)
	s.own(`{"t":"sub","stream":"a"}`)
	refused := `{"t":"subbed","stream":"a","error":"forbidden"}`
	s.want(s.frame(1, refused), "own "+refused, "t2 "+refused, "own hub live")
}

// A tab counts until it says bye or has been silent for three beats. One that falls
// silent may wake, so that the number it believes in is used up.
func TestTabsThatFallSilent(t *testing.T) {
	s := live(t)
	s.fromAt(0, "t3", `{"t":"here","own":false}`)
	s.from("t3", `{"t":"resume","own":false}`)
	const quiet = " quiet map[a:{false 5 e}]"
	s.after(5 * time.Second)
	gen := s.gen
	for range 2 {
		s.from("t3", `{"t":"here","own":false}`)
		s.frame(1, `{"t":"pong","n":1}`)
		s.frame(1, `{"t":"pong","n":2}`)
		s.want(s.after(5*time.Second), "own hub live"+quiet, "all hub live beat"+quiet)
	}
	s.from("t3", `{"t":"here","own":false}`)
	s.frame(1, `{"t":"pong","n":3}`)
	s.want(s.after(5*time.Second), `write 1 {"t":"unsub","stream":"a"}`, "own hub live", "all hub live", "own hub live",
		"own hub live resume room 1", "all hub live resume room 1", "all hub live beat room 1")
	if s.gen <= gen {
		t.Errorf("the number is %d as before", s.gen)
	}
	// It is back: what it says now is its resume, if it heeds this hub.
	s.want(s.fromAt(gen, "t2", `{"t":"here","own":false,"subs":{"a":{"after":5,"epoch":"e"}}}`),
		"own hub live room 1", "all hub live room 1", "t2 hub live resume room 1")
}

// With no other tab nothing is posted, but that there is a hub.
func TestNothingIsPostedToNobody(t *testing.T) {
	s := office(t)
	s.after(100 * time.Millisecond)
	s.want(s.frame(1, welcome), "own "+`{"t":"welcome","v":1,"session":"s1","gen":1,"user":"ada","error":"busy","heartbeat":15000,"spread":1000,"dedupe":{"id":"d1","ms":600000}}`, "own hub live")
	s.want(s.own(`{"t":"sub","stream":"a"}`), `write 1 {"t":"sub","stream":"a"}`, "own hub live")
	s.want(s.frame(1, `{"t":"event","seq":6,"stream":"a","data":6}`), `own {"t":"event","seq":6,"stream":"a","data":6}`)
	s.want(s.event(reconnect.Closed{Conn: 1, Code: 1006}), "own hub waiting")
	s.want(s.after(500*time.Millisecond), "own hub connecting resume", `own {"t":"need","n":2,"what":"url"}`, "own hub connecting")
}

func TestTheHubOutranksWhatItHears(t *testing.T) {
	ghost := wire.Envelope{Gen: 2_000_000, Hub: "Z", Frame: wire.Raw(`{"t":"hub","state":"live"}`)}
	t.Run("if it holds the lock", func(t *testing.T) {
		s := live(t)
		s.want(s.post(ghost), "ask")
		// Until it knows, it says nothing.
		s.want(s.frame(1, `{"t":"event","seq":6,"stream":"a","data":6}`))
		s.want(s.from("t2", `{"t":"msg","id":"m1","body":1}`))
		s.want(s.take(s.h.Holds(s.now, true)), "own hub live resume", "all hub live resume",
			`all {"t":"event","seq":6,"stream":"a","data":6}`, `write 1 {"t":"msg","id":"m1","body":1}`)
		if s.gen != 2_000_001 {
			t.Errorf("its number is %d", s.gen)
		}
		// A lower one does not move it.
		s.want(s.post(wire.Envelope{Gen: 2_000_001, Hub: "A", Frame: ghost.Frame}))
		s.want(s.post(wire.Envelope{Gen: 2_000_001, Hub: "I", Frame: ghost.Frame}), "ask")
	})
	t.Run("and else falls silent", func(t *testing.T) {
		s := live(t)
		s.want(s.post(ghost), "ask")
		s.want(s.take(s.h.Holds(s.now, false)), "abandon 1 4001", `own {"t":"yield"}`)
		s.want(s.own(`{"t":"sub","stream":"b"}`))
		s.want(s.after(time.Minute))
	})
	t.Run("also when a tab tells", func(t *testing.T) {
		s := live(t)
		s.want(s.from("t2", `{"t":"here","own":false,"known":2000000}`), "ask")
		s.want(s.after(1999 * time.Millisecond))
		s.want(s.after(time.Millisecond), "own hub live resume", "all hub live resume") // nobody answers
	})
	t.Run("and after 4409", func(t *testing.T) {
		s := live(t)
		s.want(s.event(reconnect.Closed{Conn: 1, Code: 4409, Reason: "gen=3000000"}), "ask")
		s.want(s.take(s.h.Holds(s.now, true)), "own hub connecting resume", "all hub connecting resume", `own {"t":"need","n":2,"what":"url"}`, "own hub connecting", "all hub connecting")
		if s.gen != 3_000_001 {
			t.Errorf("its number is %d", s.gen)
		}
	})
}

func TestAURLIsAskedOfOneTabAfterTheOther(t *testing.T) {
	s := newScript(t, 0)
	s.event(reconnect.Signal{Kind: reconnect.Hidden})
	for _, tab := range []string{"t2", "t3"} {
		s.fromAt(0, tab, `{"t":"here","own":false}`)
	}
	s.fromAt(0, "t3", `{"t":"here","own":false,"visible":true}`)
	need := `{"t":"need","n":1,"what":"url"}`
	s.want(s.own(`{"t":"start"}`), "own hub connecting resume beat", "all hub connecting resume beat", "t3 "+need, "own hub connecting", "all hub connecting")
	s.want(s.from("t2", `{"t":"have","n":1,"url":"ws://nobody-asked"}`))
	s.want(s.from("t3", `{"t":"have","n":1,"error":"no login"}`), "own "+need)
	s.after(4900 * time.Millisecond)
	s.want(s.after(100*time.Millisecond), "t2 "+need, "all hub connecting beat")
	s.want(s.from("t2", `{"t":"have","n":1,"error":"none here"}`))
	s.want(s.own(`{"t":"have","n":1,"error":"neither"}`), "own hub waiting", "all hub waiting")
}

func TestWhatTheHubBeforeHadComeTo(t *testing.T) {
	s := newScript(t, -1)
	s.want(s.own(`{"t":"here","own":false,"attempt":3,"notBefore":1007000,"known":1000500}`))
	s.want(s.own(`{"t":"start"}`), "own hub waiting", "own hub waiting resume beat", "all hub waiting resume beat")
	if s.gen <= 1_000_500 {
		t.Errorf("its number is %d", s.gen)
	}
	s.want(s.from("t2", `{"t":"resume","own":false,"notBefore":1009000}`), "own hub waiting", "all hub waiting", "own hub waiting", "all hub waiting")
	s.after(8 * time.Second)
	s.want(s.after(1500*time.Millisecond), "own hub connecting resume", "all hub connecting resume", `own {"t":"need","n":1,"what":"url"}`, "own hub connecting", "all hub connecting")
}

func TestMessagesOfTabs(t *testing.T) {
	s := live(t)
	s.want(s.from("t2", `{"t":"msg","id":"m1","body":1,"expiry":60000}`), `write 1 {"t":"msg","id":"m1","body":1}`)
	s.want(s.from("t2", `{"t":"msg","id":"m1","body":1}`)) // posted again
	s.want(s.frame(1, `{"t":"ack","id":"m1","result":{"n":1}}`), `t2 {"t":"ack","id":"m1","result":{"n":1}}`)
	s.from("t2", `{"t":"msg","id":"m2","body":1}`)
	s.want(s.frame(1, `{"t":"nack","id":"m2","code":"no","reason":"because"}`), `t2 {"t":"nack","id":"m2","code":"no","reason":"because"}`)
	s.from("t2", `{"t":"msg","id":"m3","body":1}`)
	s.want(s.from("t2", `{"t":"cancel","id":"m3"}`), `t2 {"t":"nack","id":"m3","code":"cancelled","reason":"withdrawn","outcome":"unknown"}`)
	// Those of a tab that is gone are the server's business.
	s.from("t2", `{"t":"msg","id":"m4","body":1}`)
	s.from("t2", `{"t":"bye"}`)
	s.want(s.frame(1, `{"t":"ack","id":"m4"}`))
	// What is for another hub is not taken, whatever its number.
	other := wire.Envelope{Gen: s.gen, Tab: "t2", To: "Z", Frame: wire.Raw(`{"t":"msg","id":"m6","body":1}`)}
	s.want(s.post(other), "own hub live", "all hub live", "t2 hub live resume") // it is back, and must say what it wants
	other.To, other.Gen = "H", 7
	s.want(s.post(other), `write 1 {"t":"msg","id":"m6","body":1}`)
	s.want(s.fromAt(7, "t3", `{"t":"msg","id":"m5","body":1}`), "own hub live", "all hub live", "t3 hub live resume")
}

func TestHandingOver(t *testing.T) {
	t.Run("the hub says so", func(t *testing.T) {
		s := live(t)
		s.want(s.take(s.h.HandOver(s.now)), "abandon 1 4001", `all {"t":"yield"}`)
		s.want(s.from("t2", `{"t":"here","own":false}`))
	})
	t.Run("or not, when it was deposed", func(t *testing.T) {
		s := live(t)
		s.want(s.take(s.h.Resign(s.now)), "abandon 1 4001")
	})
	t.Run("when asked to, while nobody looks at its page", func(t *testing.T) {
		s := live(t)
		s.want(s.from("t2", `{"t":"take"}`))
		s.event(reconnect.Signal{Kind: reconnect.Hidden})
		s.want(s.from("t2", `{"t":"take"}`), "abandon 1 4001", `all {"t":"yield"}`, `own {"t":"yield"}`)
	})
}

// A connection that drains is followed by one that nobody was asked for: the tabs
// say where they stand when it has taken over.
func TestTheTabsMoveWithABridge(t *testing.T) {
	s := live(t)
	s.frame(1, `{"t":"drain","within":0}`)
	s.own(`{"t":"have","n":2,"url":"ws://y"}`)
	gen := s.gen
	s.want(s.event(reconnect.Opened{Conn: 2}), `write 2 {"t":"resume","v":1,"session":"s1","gen":1000100,"user":"ada","subs":{"a":{"after":5,"epoch":"e"}},"batch":true}`)
	if s.gen != gen {
		t.Errorf("announced at %d before its welcome", s.gen)
	}
	s.want(s.frame(2, welcomeWith(`{"a":{"seq":5,"epoch":"e","first":0,"resync":false}}`)),
		"abandon 1 1000", "own hub live resume", "all hub live resume", "own hub live", "all hub live")
	bare := `{"t":"welcome","v":1,"session":"s1","gen":1,"user":"ada","error":"busy","heartbeat":15000,"spread":1000,"dedupe":{"id":"d1","ms":600000}}`
	s.want(s.from("t2", `{"t":"resume","own":false,"subs":{"a":{"after":5,"epoch":"e"}}}`), "t2 "+bare,
		`write 2 {"t":"sub","stream":"a","after":5,"epoch":"e"}`, "own hub live")
}

func TestBadTextsAreProblems(t *testing.T) {
	s := live(t)
	for text, want := range map[string]string{
		`7`:                       `bad message on the channel: wire: envelope: \"7\": is not a JSON object`,
		`{"g":1,"i":"t2","f":{}}`: `bad frame from another tab: wire: t: \"{}\": missing, or not a string`,
		`{"g":1000000,"i":"t2","f":{"t":"kick","why":"me"}}`:       `kick: there is no \"me\"`,
		`{"g":1000000,"i":"t2","f":{"t":"welcome","session":"s"}}`: `welcome is no frame of tabs`,
	} {
		s.want(s.take(s.h.FromChannel(s.now, []byte(text))), `own {"t":"problem","text":"`+want+`"}`)
	}
	s.want(s.own(`[`), `own {"t":"problem","text":"bad frame from the tab: wire: \"[\": message is not valid JSON"}`)
	s.want(s.take(s.h.FromChannel(s.now, []byte(`{"i":"t9","f":{"t":"claim"}}`))))
}

// A channel keeps for a tab whatever it has not taken: one that is too far behind is
// left behind, and the others go on in another room.
func TestATabThatIsFarBehindIsLeftBehind(t *testing.T) {
	s := live(t)
	at := `{"t":"resume","own":false,"subs":{"a":{"after":5,"epoch":"e"}}}`
	s.fromAt(0, "t3", `{"t":"here","own":false,"ask":true}`)
	s.from("t3", at)
	s.frame(1, `{"t":"subbed","stream":"a","seq":5,"epoch":"e","first":0,"resync":false}`)
	mega := strings.Repeat("x", 1<<20)
	var beats int
	for seq := 6; ; seq++ {
		text := fmt.Sprintf(`{"t":"event","seq":%d,"stream":"a","data":"%s"}`, seq, mega)
		lines := s.frame(1, text)
		if i := slices.Index(lines, "all hub live resume room 1"); i >= 0 {
			if seq != 5+8 {
				t.Errorf("left behind with event %d", seq)
			}
			break
		}
		if lines[0] != "all "+text {
			t.Fatalf("event %d: %.100v", seq, lines)
		}
		for _, line := range lines[1:] {
			if line == "all hub live beat" {
				beats++
				s.from("t2", `{"t":"here","own":false,"visible":true,"subs":{"a":{}}}`)
			}
		}
	}
	if beats != 3 {
		t.Errorf("asked %d times who keeps up", beats)
	}
	s.from("t2", `{"t":"resume","own":false,"subs":{"a":{"after":13,"epoch":"e"}}}`)
	s.want(s.frame(1, `{"t":"event","seq":14,"stream":"a","data":1}`), `all in room 1 {"t":"event","seq":14,"stream":"a","data":1}`)
	// It wakes, hears of the room with all that piled up, and is a tab like any other.
	s.want(s.fromAt(0, "t3", `{"t":"here","own":false,"ask":true}`),
		"own hub live room 1", "all hub live room 1", "t3 hub live resume room 1")
}
