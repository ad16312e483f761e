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

func send(id string) reconnect.Send { return reconnect.Send{ID: id, Body: wire.Raw(`"` + id + `"`)} }

func msgLine(conn uint64, id string) string {
	return fmt.Sprintf(`write %d {"t":"msg","id":"%s","body":"%s"}`, conn, id, id)
}

func TestSendsWhileDownGoOutInOrderAfterTheWelcome(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.want(send("a"))
	s.do(reconnect.Start{})
	s.want(send("b"))
	conn := s.open()
	s.want(send("c"))
	s.wantFrame(conn, welcome, "deliver welcome", "live", msgLine(1, "a"), msgLine(1, "b"), msgLine(1, "c"))
	s.wantFrame(conn, `{"t":"ack","id":"b","result":{"n":1}}`, `settle b accepted {"n":1}`)
	s.wantFrame(conn, `{"t":"ack","id":"b"}`)
	s.wantFrame(conn, `{"t":"nack","id":"a","code":"no","reason":"because"}`, `settle a refused  no`)
	s.wantFrame(conn, `{"t":"nack","id":"c","code":"unknown"}`, `settle c unknown  unknown`)
	s.wantFrame(conn, `{"t":"ack","id":"never sent"}`)
}

func TestAResendRelyOnTheMemoryOfTheServer(t *testing.T) {
	for name, c := range map[string]struct {
		welcome string
		away    time.Duration
		want    []string
	}{
		"it remembers":       {welcome, time.Second, []string{msgLine(2, "a"), msgLine(2, "b")}},
		"another memory":     {strings.Replace(welcome, `"d1"`, `"d2"`, 1), time.Second, []string{"settle a unknown  unknown", msgLine(2, "b")}},
		"a short memory":     {strings.Replace(welcome, `600000`, `1000`, 1), 2 * time.Second, []string{"settle a unknown  unknown", msgLine(2, "b")}},
		"no memory":          {strings.Replace(welcome, `,"dedupe":{"id":"d1","ms":600000}`, ``, 1), time.Second, []string{"settle a unknown  unknown", msgLine(2, "b")}},
		"it takes less now":  {strings.Replace(welcome, `"spread"`, `"maxFrame":10,"spread"`, 1), time.Second, []string{"settle a unknown  too big", "settle b not-sent  too big"}},
		"at the same moment": {welcome, 0, []string{msgLine(2, "a"), msgLine(2, "b")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reconnect.Policy{Rand: func() float64 { return 1e-9 }})
			conn := s.live(welcome)
			s.want(send("a"), msgLine(1, "a"))
			s.now = s.now.Add(c.away)
			s.do(reconnect.Closed{Conn: conn, Code: 1006})
			s.do(send("b"))
			conn = s.open()
			lines := s.frame(conn, c.welcome)
			got := slices.DeleteFunc(lines, func(l string) bool { return l == "deliver welcome" || l == "live" })
			if !slices.Equal(got, c.want) {
				t.Errorf("got %q\nwant %q", got, c.want)
			}
		})
	}
}

func TestTheWindowBoundsWhatIsInFlight(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(strings.Replace(welcome, `"spread"`, `"window":2,"spread"`, 1))
	s.want(send("a"), msgLine(1, "a"))
	s.want(send("b"), msgLine(1, "b"))
	s.want(send("c"))
	s.wantFrame(conn, `{"t":"ack","id":"b"}`, "settle b accepted", msgLine(1, "c"))
	// And the bytes: never more than 256 KiB, but always one.
	s = newScript(t, reconnect.Policy{})
	s.live(welcome)
	big := wire.Raw(`"` + strings.Repeat("x", 200<<10) + `"`)
	if lines := s.do(reconnect.Send{ID: "a", Body: big}); len(lines) != 1 {
		t.Errorf("the first: %d actions", len(lines))
	}
	if lines := s.do(reconnect.Send{ID: "b", Body: big}); len(lines) != 0 {
		t.Errorf("the second: %d actions", len(lines))
	}
}

func TestRefusedAtOnce(t *testing.T) {
	s := newScript(t, reconnect.Policy{MaxPending: 2, MaxPendingBytes: 10})
	s.want(reconnect.Send{ID: "", Body: wire.Raw("1")}, "settle  not-sent  invalid")
	s.want(reconnect.Send{ID: strings.Repeat("x", 65), Body: wire.Raw("1")}, "settle "+strings.Repeat("x", 65)+" not-sent  invalid")
	s.want(reconnect.Send{ID: "e"}, "settle e not-sent  invalid")
	s.want(reconnect.Send{ID: "big", Body: wire.Raw(`"0123456789"`)}, "settle big not-sent  outbox full")
	s.want(send("a"))
	s.want(send("a"), `problem message "a" is sent twice; the first one counts`)
	s.want(send("b"))
	s.want(send("c"), "settle c not-sent  outbox full")
	// The announced limit, once it is known.
	s = newScript(t, reconnect.Policy{})
	s.live(strings.Replace(welcome, `"spread"`, `"maxFrame":40,"spread"`, 1))
	s.want(reconnect.Send{ID: "x", Body: wire.Raw(`"` + strings.Repeat("x", 40) + `"`)}, "settle x not-sent  too big")
}

func TestWithdrawnAndExpiredMessagesNeverReachTheWireLater(t *testing.T) {
	s := newScript(t, reconnect.Policy{Expiry: time.Minute})
	s.want(send("a"))
	s.want(send("b"))
	s.want(reconnect.Cancel{ID: "a"}, "settle a not-sent  cancelled")
	s.want(reconnect.Cancel{ID: "a"})
	s.wantAfter(59999 * time.Millisecond)
	s.wantAfter(time.Millisecond, "settle b not-sent  expired")
	s.do(reconnect.Start{})
	s.wantFrame(s.open(), welcome, "deliver welcome", "live")
	// Once written, nobody knows.
	s.want(send("c"), msgLine(1, "c"))
	s.want(reconnect.Cancel{ID: "c"}, "settle c unknown  cancelled")
	s.wantFrame(1, `{"t":"ack","id":"c"}`)
}

func TestANotNowHoldsTheOrder(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.do(send("a"))
	s.do(send("b"))
	s.wantFrame(conn, `{"t":"nack","id":"a","code":"busy","retry":2000}`)
	s.wantFrame(conn, `{"t":"nack","id":"b","code":"busy","retry":2000}`)
	s.want(send("c"))
	s.wantAfter(1999 * time.Millisecond)
	s.wantAfter(time.Millisecond, msgLine(1, "a"), msgLine(1, "b"), msgLine(1, "c"))
	// What was written behind it is refused as well, before it returns. And a retry of
	// nothing is not a hot loop.
	s.wantFrame(conn, `{"t":"nack","id":"a","retry":0}`)
	s.wantFrame(conn, `{"t":"nack","id":"b","retry":0}`)
	s.want(send("d"))
	s.wantAfter(time.Second)
	s.wantFrame(conn, `{"t":"nack","id":"c","retry":0}`)
	s.wantAfter(99 * time.Millisecond)
	s.wantAfter(time.Millisecond, msgLine(1, "a"), msgLine(1, "b"), msgLine(1, "c"), msgLine(1, "d"))
	// Or its answer was on its way already.
	s.wantFrame(conn, `{"t":"nack","id":"b","retry":0}`)
	s.wantAfter(time.Second)
	s.wantFrame(conn, `{"t":"ack","id":"a"}`, "settle a accepted")
	s.wantFrame(conn, `{"t":"nack","id":"d","code":"no"}`, "settle d refused  no")
	s.wantFrame(conn, `{"t":"ack","id":"c"}`, "settle c accepted", msgLine(1, "b"))
}

func TestAnEndSettlesEverything(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(strings.Replace(welcome, `"spread"`, `"window":1,"spread"`, 1))
	s.do(send("a"))
	s.do(send("b"))
	s.want(reconnect.Closed{Conn: conn, Code: 4403}, "settle a unknown  ended", "settle b not-sent  ended", "ended forbidden")
	s.want(send("c"), "settle c not-sent  ended")
	// But a login can come back: what waits for it is kept until it expires.
	s = newScript(t, reconnect.Policy{Expiry: time.Minute})
	s.do(send("a"))
	s.do(reconnect.Start{})
	for range 3 {
		s.do(reconnect.Closed{Conn: s.open(), Code: 4401})
	}
	if st := s.m.Status(); st.Cause != reconnect.CauseUnauthorized || st.Pending != 1 {
		t.Fatalf("got %+v", st)
	}
	s.do(send("b"))
	s.do(reconnect.Reauthorize{})
	s.wantFrame(s.open(), welcome, "deliver welcome", "live", msgLine(4, "a"), msgLine(4, "b"))
}

// A message that costs the connection is failed alone, and those around it live.
func TestTooBigForTheServer(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.do(send("a"))
	s.do(send("big"))
	s.do(send("c"))
	s.do(reconnect.Closed{Conn: conn, Code: 1009})
	// One at a time now.
	s.wantFrame(s.open(), welcome, "deliver welcome", "live", msgLine(2, "a"))
	s.wantFrame(2, `{"t":"ack","id":"a"}`, "settle a accepted", msgLine(2, "big"))
	s.do(reconnect.Closed{Conn: 2, Code: 1009})
	s.wantFrame(s.open(), welcome, "deliver welcome", "live", msgLine(3, "big"))
	s.want(reconnect.Closed{Conn: 3, Code: 1009}, "settle big refused  too big", "waiting 8s")
	s.wantFrame(s.open(), welcome, "deliver welcome", "live", msgLine(4, "c"))
	s.wantFrame(4, `{"t":"ack","id":"c"}`, "settle c accepted")
}

func TestDroppingTheOldest(t *testing.T) {
	s := newScript(t, reconnect.Policy{MaxPending: 2, MaxPendingBytes: 20, Overflow: reconnect.DropOldest})
	s.do(send("a"))
	s.do(send("b"))
	s.want(send("c"), "settle a not-sent  dropped")
	s.want(reconnect.Send{ID: "d", Body: wire.Raw(`"0123456789012345"`)}, "settle b not-sent  dropped", "settle c not-sent  dropped")
	s.want(reconnect.Send{ID: "e", Body: wire.Raw(`"01234567890123456789"`)}, "settle e not-sent  outbox full")
	// What was written may have taken effect: it is never dropped.
	s.live(welcome)
	s.want(send("f"), "settle f not-sent  outbox full")
}

func TestEachMessageHasItsExpiry(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(send("a"))
	s.do(reconnect.Send{ID: "b", Body: wire.Raw("1"), Expiry: time.Second})
	s.do(reconnect.Send{ID: "c", Body: wire.Raw("1"), Expiry: time.Minute})
	s.want(reconnect.Send{ID: "d", Body: wire.Raw("1"), Expiry: -1}, "settle d not-sent  invalid")
	s.wantAfter(time.Second, "settle b not-sent  expired")
	s.wantAfter(59*time.Second, "settle c not-sent  expired")
	s.wantAfter(4*time.Minute, "settle a not-sent  expired")
}

func TestInspectAndClear(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.live(strings.Replace(welcome, `"spread"`, `"window":1,"spread"`, 1))
	s.do(send("a"))
	s.do(send("b"))
	want := []reconnect.PendingMessage{
		{ID: "a", Bytes: 3, Written: true, Expires: s.now.Add(5 * time.Minute)},
		{ID: "b", Bytes: 3, Expires: s.now.Add(5 * time.Minute)},
	}
	if got := s.m.Pending(); !slices.Equal(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	s.want(reconnect.Clear{}, "settle a unknown  cancelled", "settle b not-sent  cancelled")
}

// A message over which the server falls, again and again, is given up alone; those
// behind it live.
func TestAMessageThatNoConnectionSurvivesIsQuarantined(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(send("poison"))
	s.do(send("b"))
	s.do(reconnect.Start{})
	for i := range 5 {
		conn := s.live(welcome)
		alone := len(s.last) == 3 // welcome, state, one message
		if wantAlone := i >= 2; alone != wantAlone {
			t.Errorf("connection %d: sent alone %v, want %v", i, alone, wantAlone)
		}
		lines := s.do(reconnect.Closed{Conn: conn, Code: 1006})
		if quarantined := lines[0] == "settle poison unknown  quarantined"; quarantined != (i == 4) {
			t.Errorf("loss %d: %q", i, lines)
		}
	}
	s.wantFrame(s.open(), welcome, "deliver welcome", "live", msgLine(6, "b"))
	s.wantFrame(6, `{"t":"ack","id":"b"}`, "settle b accepted")

	// A bad network is not the fault of a message: the link held for a while.
	s = newScript(t, reconnect.Policy{})
	s.do(send("a"))
	s.do(reconnect.Start{})
	for range 8 {
		conn := s.live(welcome)
		s.after(5 * time.Second)
		s.do(reconnect.Closed{Conn: conn, Code: 1006})
	}
	if st := s.m.Status(); st.Pending != 1 {
		t.Errorf("got %+v", st)
	}
}

func TestASlowUplinkIsNotADeadOne(t *testing.T) {
	s, conn := settled(t)
	s.do(send("a"))
	for range 20 {
		s.wantAfter(4 * time.Second)
		s.want(reconnect.Wrote{Conn: conn})
		s.want(reconnect.Received{Conn: conn, Data: []byte(hb)})
	}
	s.wantAfter(5*time.Second, `write 1 {"t":"ping","n":1}`)
	for range 20 {
		s.wantAfter(4 * time.Second)
		s.want(reconnect.Wrote{Conn: conn})
		s.want(reconnect.Received{Conn: conn, Data: []byte(hb)})
	}
	s.wantAfter(5*time.Second, "abandon 1 4408 no pong within 5s", "waiting 4s")
}

// What was refused for now had no effect, if that was the only copy: a server that
// remembers no ids is sent it as well.
func TestWhatWasRefusedForNowReliesOnNoMemory(t *testing.T) {
	const nack = `{"t":"nack","id":"a","code":"busy","retry":1000}`
	another := strings.Replace(welcome, `"d1"`, `"d2"`, 1)
	s, conn := settled(t)
	s.want(send("a"), msgLine(conn, "a"))
	s.frame(conn, nack)
	s.do(reconnect.Closed{Conn: conn, Code: 1012})
	conn = s.open()
	s.wantFrame(conn, another, "deliver welcome", "live", msgLine(conn, "a"))
	// Of the second copy nobody knows whether the first had none either.
	s.do(reconnect.Closed{Conn: conn, Code: 1012})
	conn = s.open()
	s.wantFrame(conn, another, "deliver welcome", "live", msgLine(conn, "a"))
	s.frame(conn, nack)
	s.do(reconnect.Closed{Conn: conn, Code: 1012})
	conn = s.open()
	s.wantFrame(conn, welcome, "deliver welcome", "live", "settle a unknown  unknown")
	// Nor of the first one here, if a relay before may have written it.
	s, conn = settled(t)
	s.want(reconnect.Send{ID: "a", Body: wire.Raw(`"a"`), Dedupe: "d1"}, msgLine(conn, "a"))
	s.frame(conn, nack)
	s.do(reconnect.Closed{Conn: conn, Code: 1012})
	conn = s.open()
	s.wantFrame(conn, another, "deliver welcome", "live", "settle a unknown  unknown")
}

// Whatever the second one looks like, the first one is not settled for it.
func TestASecondMessageOfTheSameIDSettlesNothing(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(send("m"))
	for _, again := range []reconnect.Send{{ID: "m"}, {ID: "m", Body: wire.Raw("2")}, {ID: "m", Body: wire.Raw("2"), Expiry: -1}} {
		s.want(again, `problem message "m" is sent twice; the first one counts`)
	}
	if got := s.m.Status().Pending; got != 1 {
		t.Errorf("%d messages are pending, want 1", got)
	}
}

// The server holds everything back until the message returns that it refused for
// now. When that was withdrawn, a second connection frees those behind it, and no
// event is lost meanwhile.
func TestAWithdrawnMessageDoesNotHoldTheOthersBack(t *testing.T) {
	s, conn := settled(t)
	s.do(send("a"))
	s.do(send("b"))
	s.frame(conn, `{"t":"nack","id":"a","code":"busy","retry":1000}`)
	s.frame(conn, `{"t":"nack","id":"b","code":"busy","retry":1000}`)
	s.want(reconnect.Cancel{ID: "a"}, "settle a not-sent  cancelled")
	s.wantAfter(1249 * time.Millisecond)
	s.wantAfter(time.Millisecond, "fetch 2")
	// A bridge that fails is tried again.
	s.want(reconnect.URLFailed{Attempt: 2, Err: "no"}, "problem no second connection beside the first: no URL to dial: no")
	s.wantAfter(250*time.Millisecond, "fetch 3")
	s.want(reconnect.URLReady{Attempt: 3, URL: "ws://x"}, "dial 2")
	s.do(reconnect.Opened{Conn: 2})
	s.wantFrame(2, welcome, "abandon 1 1000 moved", "deliver welcome", "live", msgLine(2, "b"))
}

// The nack may still be under way when the message is withdrawn.
func TestAMessageRefusedForNowAfterItWasWithdrawnDoesNotHoldTheOthersBack(t *testing.T) {
	s, conn := settled(t)
	s.do(send("a"))
	s.do(send("b"))
	s.want(reconnect.Cancel{ID: "a"}, "settle a unknown  cancelled")
	s.wantFrame(conn, `{"t":"nack","id":"never sent","code":"busy","retry":1000}`)
	s.frame(conn, `{"t":"nack","id":"a","code":"busy","retry":1000}`)
	s.frame(conn, `{"t":"nack","id":"b","code":"busy","retry":1000}`)
	s.wantAfter(249 * time.Millisecond)
	s.wantAfter(time.Millisecond, "fetch 2")
}
