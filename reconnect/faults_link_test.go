package reconnect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// A client that leaves a dead link with a close frame must not read the peer's
// polite echo as "the server has finished".
func TestAPoliteAnswerToOurOwnCloseIsNoGoodbye(t *testing.T) {
	s, conn := settled(t)
	s.wantAfter(37500*time.Millisecond-5*time.Second, "abandon 1 4408 nothing heard for 37.5s", "waiting 4s")
	for _, code := range []int{1000, 4408, 4403} {
		s.want(reconnect.Closed{Conn: conn, Code: code})
	}
	if st := s.m.Status(); st.State != reconnect.Waiting || !strings.Contains(st.Reason, "nothing heard") {
		t.Errorf("got %+v", st)
	}
	s.wantAfter(4*time.Second, "waiting 1s", "fetch 2", "connecting")
	s.want(reconnect.Closed{Conn: conn, Code: 1000})
	s.wantFrame(s.open(), welcome, "deliver welcome", "live")
}

// The pong is queued behind five seconds of events: each of them shows that the
// link lives.
func TestAPongBehindALongReplayIsWaitedFor(t *testing.T) {
	s, conn := following(t)
	s.want(reconnect.Signal{Kind: reconnect.Visible}, `write 1 {"t":"ping","n":1}`)
	for seq := 11; seq < 16; seq++ {
		s.after(time.Second)
		s.wantFrame(conn, fmt.Sprintf(`{"t":"event","seq":%d,"stream":"a","data":1}`, seq), fmt.Sprintf("deliver a %d=1", seq))
	}
	s.after(1900 * time.Millisecond)
	s.wantFrame(conn, `{"t":"pong","n":1}`, "live")
	s.after(5 * time.Second)
	if st := s.m.Status(); st.State != reconnect.Live || st.LastClose != nil {
		t.Errorf("got %+v", st)
	}
}

// The clock jumps by 140 s and the page becomes visible: two seconds, no minutes,
// of a false "connected"; and a link that answers is kept.
func TestAfterASleepADeadLinkIsReplacedWithinTwoSeconds(t *testing.T) {
	s, _ := settled(t)
	s.now = s.now.Add(140 * time.Second)
	s.want(reconnect.Signal{Kind: reconnect.Visible}, `write 1 {"t":"ping","n":1}`)
	s.wantAfter(1999 * time.Millisecond)
	s.wantAfter(time.Millisecond, "abandon 1 4408 no pong within 2s", "waiting 4s")

	s, conn := settled(t)
	for n := range 20 { // switching to and fro between tabs
		s.now = s.now.Add(140 * time.Second)
		s.want(reconnect.Signal{Kind: reconnect.Visible}, fmt.Sprintf(`write 1 {"t":"ping","n":%d}`, n+1))
		s.wantFrame(conn, fmt.Sprintf(`{"t":"pong","n":%d}`, n+1), "live")
	}
	if got := s.m.Totals(); got.Attempts != 1 {
		t.Errorf("%d dials, want the first only", got.Attempts)
	}
}

// Events of a page come in bunches, and a browser that thaws runs every expired
// timer at once.
func TestManyKicksAtOnceDialOnce(t *testing.T) {
	kicks := []reconnect.Event{
		reconnect.Signal{Kind: reconnect.Visible},
		reconnect.Signal{Kind: reconnect.Online},
		reconnect.Wake{},
		reconnect.DialNow{},
		reconnect.Start{},
		reconnect.Reauthorize{},
		reconnect.Tick{},
	}
	waits := map[string]time.Duration{"early": 0, "one millisecond before the timer": 3999 * time.Millisecond, "late": time.Hour}
	for name, wait := range waits {
		for first := range kicks {
			s, conn := settled(t)
			s.do(reconnect.Closed{Conn: conn, Code: 1006}) // waits 4 s
			s.now = s.now.Add(wait)
			fetched := 0
			bunch := func() {
				for i := range 100 {
					for _, l := range s.do(kicks[(first+i)%len(kicks)]) {
						if strings.HasPrefix(l, "fetch") {
							fetched++
						}
					}
				}
			}
			bunch()
			if fetched != 1 {
				t.Fatalf("%s, %T first: %d URLs asked for, want 1", name, kicks[first], fetched)
			}
			s.want(reconnect.URLReady{Attempt: 2, URL: "ws://x"}, "dial 2", "connecting")
			bunch()
			s.do(reconnect.Opened{Conn: 2})
			bunch()
			s.frame(2, welcome)
			if fetched != 1 || s.m.Status().State != reconnect.Live {
				t.Errorf("%s, %T first: %d URLs asked for; %+v", name, kicks[first], fetched, s.m.Status())
			}
		}
	}
}

// Restored from the back/forward cache: the close event of the old socket comes
// before the page does, after it, or never.
func TestAPageThatComesBackHasOneConnectionWheneverTheOldOneIsReportedClosed(t *testing.T) {
	for _, when := range []string{"before", "after", "never"} {
		t.Run(when, func(t *testing.T) {
			s, conn := settled(t)
			s.want(reconnect.Sleep{}, "abandon 1 4001 leaving", "waiting")
			s.now = s.now.Add(5 * time.Minute)
			if when == "before" {
				s.want(reconnect.Closed{Conn: conn, Code: 1006})
			}
			s.want(reconnect.Tick{}) // the timers of before are late
			s.want(reconnect.Wake{}, "fetch 2", "connecting")
			if when == "after" {
				s.want(reconnect.Closed{Conn: conn, Code: 1006})
			}
			s.wantFrame(s.open(), welcome, "deliver welcome", "live")
			s.want(reconnect.Wake{})
			s.want(reconnect.Closed{Conn: conn, Code: 1006})
		})
	}
}

// Every loss, of whatever kind, is said once and ends in the same word.
func TestEveryLossHasItsRecoverySaid(t *testing.T) {
	answers := map[string]string{
		"nothing missed": `{"seq":10,"epoch":"e","first":3,"resync":false}`,
		"replayed":       `{"seq":12,"epoch":"e","first":3,"resync":false}`,
		"gap":            `{"seq":4,"epoch":"f","first":0,"resync":true}`,
		"refused":        `{"error":"forbidden"}`,
	}
	for name, answer := range answers {
		t.Run(name, func(t *testing.T) {
			s, conn := following(t)
			s.do(reconnect.Closed{Conn: conn, Code: 1006})
			s.do(reconnect.Closed{Conn: s.open(), Code: 1006}) // lost before the welcome
			s.frame(s.open(), welcomeWith(`{"a":`+answer+`}`))
			var states []string
			for _, h := range s.m.History() {
				if n := len(states); n == 0 || states[n-1] != h.State.String() {
					states = append(states, h.State.String())
				}
			}
			want := []string{"waiting", "connecting", "live", "waiting", "connecting", "waiting", "connecting", "live"}
			if !slices.Equal(states, want) || s.m.Status().State != reconnect.Live {
				t.Errorf("got %q, %v\nwant %q", states, s.m.Status().State, want)
			}
		})
	}
}
