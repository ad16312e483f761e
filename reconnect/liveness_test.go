package reconnect_test

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

const hb = `{"t":"hb"}`

// settled returns a script whose session has held for StableAfter.
func settled(t *testing.T) (*script, uint64) {
	t.Helper()
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.after(5 * time.Second)
	return s, conn
}

func TestSilenceOfTwoAndAHalfHeartbeatsEndsTheLink(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.after(15 * time.Second)
	s.wantFrame(conn, hb)
	s.wantAfter(37499 * time.Millisecond)
	s.wantAfter(time.Millisecond, "abandon 1 4408 nothing heard for 37.5s", "waiting 4s")
	if c := s.m.Status().LastClose; c.Code != wire.CloseNoSignOfLife {
		t.Errorf("last close %+v", c)
	}
}

func TestAPongProvesTheUplinkAndNothingElseDoes(t *testing.T) {
	s, conn := settled(t)
	s.want(send("a"), msgLine(1, "a"))
	// An acknowledgement overdue asks; frames that arrive put the deadline off,
	// within the idle timeout.
	s.wantAfter(5*time.Second, `write 1 {"t":"ping","n":1}`)
	for range 9 {
		s.wantAfter(4 * time.Second)
		s.wantFrame(conn, hb)
	}
	s.wantAfter(1499 * time.Millisecond)
	s.wantAfter(time.Millisecond, "abandon 1 4408 frames arrive but no pong: nothing gets through to the server", "waiting 4s")

	// A pong clears it, and the handler may take its time.
	s, conn = settled(t)
	s.do(send("a"))
	for n := range 5 {
		s.wantAfter(5*time.Second, `write 1 {"t":"ping","n":`+string(rune('1'+n))+`}`)
		s.wantFrame(conn, `{"t":"pong","n":`+string(rune('1'+n))+`}`, "live")
	}
	s.wantFrame(conn, `{"t":"ack","id":"a"}`, "settle a accepted")
	s.wantAfter(30 * time.Second)
}

func TestSignalsVerifyALiveLinkInsteadOfTearingItDown(t *testing.T) {
	for _, kind := range []reconnect.SignalKind{reconnect.Visible, reconnect.Online, reconnect.Offline} {
		s, conn := settled(t)
		s.want(reconnect.Signal{Kind: kind}, `write 1 {"t":"ping","n":1}`)
		s.want(reconnect.Signal{Kind: kind}) // one is enough
		s.wantFrame(conn, `{"t":"pong","n":1}`, "live")
		s.wantAfter(10 * time.Second)
		s.want(reconnect.Signal{Kind: kind}, `write 1 {"t":"ping","n":2}`)
		s.wantFrame(conn, `{"t":"pong","n":1}`) // an old one proves nothing
		s.wantAfter(1999 * time.Millisecond)
		s.wantAfter(time.Millisecond, "abandon 1 4408 no pong within 2s", "waiting 4s")
	}
	s, _ := settled(t)
	s.want(reconnect.Signal{Kind: reconnect.Hidden})
}

// Timers of a hidden page run once a minute. What arrived is handled before they
// run; if nothing did, a ping decides, never the timer.
func TestALateTimerLooksAtWhatHasArrivedAndThenAsks(t *testing.T) {
	s, conn := settled(t)
	for n := range 10 {
		s.now = s.now.Add(time.Minute)
		if n%2 == 0 {
			s.do(reconnect.Received{Conn: conn, Data: []byte(hb)})
		} else {
			s.do(reconnect.Tick{})
		}
		var pinged bool
		for _, a := range s.last {
			w, ok := a.(reconnect.Write)
			pinged = pinged || ok && strings.Contains(string(w.Data), "ping")
		}
		if !pinged || s.m.Status().State != reconnect.Live {
			t.Fatalf("minute %d: %+v", n, s.last)
		}
		s.wantFrame(conn, `{"t":"pong","n":`+strconv.Itoa(n+1)+`}`, "live")
	}
	// Nobody answers: two seconds later it is over, on a punctual timer.
	s.now = s.now.Add(time.Hour)
	s.do(reconnect.Tick{})
	s.wantAfter(2*time.Second, "abandon 1 4408 no pong within 2s", "waiting 4s")
}

// The monotonic clock stops while a machine sleeps, the wall clock may be set
// back: the larger difference counts, and less than nothing counts as nothing.
func TestEitherClockTellsOfASleep(t *testing.T) {
	begun := time.Now() // carries both clocks
	s := newScript(t, reconnect.Policy{})
	s.now = begun
	conn := s.live(welcome)
	wallOnly := func(d time.Duration) time.Time { return begun.Add(time.Second).Round(0).Add(d) }
	s.now = wallOnly(time.Hour)
	s.want(reconnect.Tick{}, `write 1 {"t":"ping","n":1}`, "live")
	s.frame(conn, `{"t":"pong","n":1}`)
	s.now = wallOnly(-time.Hour)
	s.want(reconnect.Tick{})
	if left, ok := s.m.Next(s.now); !ok || left > 38*time.Second || left < 0 {
		t.Errorf("after the clock went back: next in %v, %v", left, ok)
	}
}

func TestWhileTheApplicationIsBehindSilenceProvesNothing(t *testing.T) {
	s, _ := settled(t)
	s.want(reconnect.Stalled{On: true})
	s.wantAfter(10 * time.Minute)
	s.want(reconnect.Stalled{On: false})
	s.wantAfter(37499 * time.Millisecond)
	s.wantAfter(time.Millisecond, "abandon 1 4408 nothing heard for 37.5s", "waiting 4s")
}

func TestAnAnnouncedLargeFrameIsWaitedFor(t *testing.T) {
	s, conn := settled(t)
	s.wantFrame(conn, `{"t":"hb","next":6553600,"stream":"a"}`) // 100 s at 64 KiB/s
	s.wantAfter(137*time.Second + 400*time.Millisecond)
	s.wantAfter(100*time.Millisecond, "abandon 1 4408 nothing heard for 37.5s", "waiting 4s")
	// Larger than the client takes: that stream is given up, or it would break the
	// connection again and again.
	s = newScript(t, reconnect.Policy{MaxMessage: 1000})
	s.do(reconnect.Subscribe{Stream: "a"})
	conn = s.live(welcomeWith(`{"a":{"seq":0,"epoch":"e","first":0,"resync":true}}`))
	s.wantFrame(conn, `{"t":"hb","next":1001,"stream":"a"}`,
		`deliver {"t":"subbed","stream":"a","error":"a frame of this stream is larger than the client takes"}`,
		"abandon 1 1009 a frame larger than the client takes was announced", "waiting 4s")
	s.open()
	if write := string(s.last[0].(reconnect.Write).Data); strings.Contains(write, "subs") {
		t.Errorf("resume %s still asks for it", write)
	}
}

func TestAPageThatSleepsGivesItsSocketUpAndResumes(t *testing.T) {
	s, conn := settled(t)
	s.want(reconnect.Sleep{}, "abandon 1 4001 leaving", "waiting")
	s.want(reconnect.Closed{Conn: conn, Code: 1006})
	s.want(reconnect.Signal{Kind: reconnect.Online})
	s.wantAfter(time.Hour)
	s.want(reconnect.Wake{}, "fetch 2", "connecting")
	s.open()
	if write := string(s.last[0].(reconnect.Write).Data); !strings.Contains(write, `"session":"s1"`) || !strings.Contains(write, `"away":3605000`) {
		t.Errorf("resume %s", write)
	}
	s.want(reconnect.Wake{})
	// A floor of the server outlives the sleep.
	s, conn = settled(t)
	s.do(reconnect.Closed{Conn: conn, Code: 1013, Reason: "retry=60000-60000"})
	s.do(reconnect.Sleep{})
	s.now = s.now.Add(20 * time.Second)
	s.want(reconnect.Wake{}, "waiting 40s")
}

func TestKicks(t *testing.T) {
	down := func() *script {
		s, conn := settled(t)
		s.do(reconnect.Closed{Conn: conn, Code: 1006}) // waits 4 s
		return s
	}
	s := down()
	s.want(reconnect.Signal{Kind: reconnect.Visible}, "fetch 2", "connecting")
	s.want(reconnect.Signal{Kind: reconnect.Visible})
	s.want(reconnect.Signal{Kind: reconnect.Online})

	s = down()
	s.want(reconnect.Signal{Kind: reconnect.Online}, "waiting 2s") // U(0, min(spread, left))
	s.want(reconnect.Signal{Kind: reconnect.Online})               // many count as one
	s.want(reconnect.Signal{Kind: reconnect.Visible}, "fetch 2", "connecting")

	s = down()
	s.want(reconnect.Signal{Kind: reconnect.Offline})
	s.want(reconnect.DialNow{}, "fetch 2", "connecting")

	// online comes before the network works: a few quick tries, then as before.
	s = down()
	s.do(reconnect.Signal{Kind: reconnect.Online})
	var waits []time.Duration
	for range 5 {
		s.do(reconnect.Closed{Conn: s.open(), Code: 1006})
		waits = append(waits, s.m.Status().NextRetry.Sub(s.now))
	}
	for i, want := range []time.Duration{500 * time.Millisecond, 500 * time.Millisecond, 500 * time.Millisecond, 8 * time.Second, 8 * time.Second} {
		if waits[i] != want {
			t.Errorf("try %d after online: wait %v, want %v", i, waits[i], want)
		}
	}

	// A floor is never undercut, but by an explicit wish.
	s, conn := settled(t)
	s.do(reconnect.Closed{Conn: conn, Code: 1013})
	s.want(reconnect.Signal{Kind: reconnect.Visible}, "waiting 15.5s")
	s.want(reconnect.DialNow{}, "fetch 2", "connecting")

	// No storm of kicks.
	s = down()
	dials := 0
	for range 100 {
		s.do(reconnect.Signal{Kind: reconnect.Visible})
		if s.m.Status().State == reconnect.Connecting {
			dials++
			s.do(reconnect.Closed{Conn: s.open(), Code: 1006})
		}
	}
	if dials > 6 {
		t.Errorf("%d dials in no time", dials)
	}
}

func TestAnEndedClientIsRevivedByASightAtMostOnceAMinute(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Start{})
	s.do(reconnect.Closed{Conn: s.open(), Code: 4403})
	s.wantAfter(time.Hour)
	s.want(reconnect.Signal{Kind: reconnect.Visible}, "fetch 2", "connecting")
	s.do(reconnect.Closed{Conn: s.open(), Code: 4403})
	s.want(reconnect.Signal{Kind: reconnect.Visible})
	s.wantAfter(time.Minute)
	s.want(reconnect.Signal{Kind: reconnect.Visible}, "fetch 3", "connecting")
}

// An acknowledgement that nobody reads is no reason to look again and again.
func TestAnOverdueAcknowledgementWaitsWhileNothingIsRead(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.want(send("m"), msgLine(conn, "m"))
	s.do(reconnect.Stalled{On: true})
	s.after(time.Minute) // fails in a hot loop
	s.do(reconnect.Stalled{})
	s.wantFrame(conn, `{"t":"ack","id":"m"}`, "settle m accepted")
}

func TestASilentStoreIsShownUntilItIsBack(t *testing.T) {
	s, conn := settled(t)
	stale := func(want time.Duration) {
		t.Helper()
		if got := s.m.Status().Stale; got != want {
			t.Errorf("stale for %v, want %v", got, want)
		}
	}
	s.wantFrame(conn, `{"t":"hb","stale":15000}`, "live")
	stale(15 * time.Second)
	s.wantFrame(conn, `{"t":"hb","stale":30000}`, "live")
	s.wantFrame(conn, `{"t":"hb","next":6553600}`) // announces a frame, and says nothing of the store
	stale(30 * time.Second)
	s.wantFrame(conn, hb, "live")
	stale(0)
	s.wantFrame(conn, hb)

	// An event shows it too.
	s.wantFrame(conn, `{"t":"hb","stale":9007199254740991}`, "live")
	stale(24 * time.Hour)
	s.do(reconnect.Received{Conn: conn, Data: []byte(`{"t":"event","seq":1,"data":1}`)})
	stale(0)

	// And it is the store of that server: of the next one nothing is known.
	s.wantFrame(conn, `{"t":"hb","stale":15000}`, "live")
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	stale(0)
}

func TestThePongTellsHowLongTheServerTakes(t *testing.T) {
	s, conn := settled(t)
	rtt := func(want time.Duration) {
		t.Helper()
		if got := s.m.Status().RTT; got != want {
			t.Errorf("round trip %v, want %v", got, want)
		}
	}
	rtt(0)
	s.want(reconnect.DialNow{}, `write 1 {"t":"ping","n":1}`)
	s.wantAfter(40 * time.Millisecond)
	rtt(0)
	s.wantFrame(conn, `{"t":"pong","n":1}`, "live")
	rtt(40 * time.Millisecond)
	s.wantAfter(10 * time.Millisecond)
	s.wantFrame(conn, `{"t":"pong","n":1}`) // twice is once
	rtt(40 * time.Millisecond)

	// It is that of this connection.
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	rtt(0)
}
