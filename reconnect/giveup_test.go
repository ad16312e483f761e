package reconnect_test

import (
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

func TestKindsOfJitter(t *testing.T) {
	for kind, want := range map[reconnect.Jitter][2]time.Duration{
		reconnect.JitterFull:  {0, 8 * time.Second},
		reconnect.JitterEqual: {4 * time.Second, 8 * time.Second},
		reconnect.JitterNone:  {8 * time.Second, 8 * time.Second},
	} {
		for i, r := range []float64{1e-9, 1} {
			s := newScript(t, reconnect.Policy{Jitter: kind, Rand: func() float64 { return r }})
			s.do(reconnect.Closed{Conn: s.live(welcome), Code: 1006})
			if got := s.m.Status().NextRetry.Sub(s.now).Round(time.Millisecond); got != want[i] {
				t.Errorf("jitter %d, random %v: wait %v, want %v", kind, r, got, want[i])
			}
		}
	}
}

func TestGivingUpByAttempts(t *testing.T) {
	s := newScript(t, reconnect.Policy{MaxAttempts: 3})
	s.do(reconnect.Start{})
	for range 2 {
		s.do(reconnect.Closed{Conn: s.open(), Code: 1006})
	}
	s.want(reconnect.Closed{Conn: s.open(), Code: 1006}, "ended gave up")
	s.wantAfter(time.Hour)
	// Start begins afresh, and a session that held counts anew.
	s.want(reconnect.Start{}, "fetch 4", "connecting")
	s.do(reconnect.Closed{Conn: s.open(), Code: 1006})
	conn := s.live(welcome)
	s.after(6 * time.Second)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	if st := s.m.Status(); st.State != reconnect.Waiting || st.Attempt != 1 {
		t.Errorf("got %+v", st)
	}
}

func TestGivingUpByTime(t *testing.T) {
	s := newScript(t, reconnect.Policy{MaxElapsed: time.Minute, Rand: func() float64 { return 0.9 }})
	conn := s.live(welcome)
	s.after(6 * time.Second)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	begun := s.now
	for s.m.Status().State != reconnect.Ended {
		if s.now.Sub(begun) > time.Minute {
			t.Fatalf("after %v: %+v", s.now.Sub(begun), s.m.Status())
		}
		s.after(time.Second)
	}
	if st := s.m.Status(); st.Cause != reconnect.CauseGaveUp || s.now.Sub(begun) != time.Minute {
		t.Errorf("after %v: %+v", s.now.Sub(begun), st)
	}
	// Sleep is no patience lost.
	s = newScript(t, reconnect.Policy{MaxElapsed: time.Minute})
	s.do(reconnect.Start{})
	s.do(reconnect.Sleep{})
	s.wantAfter(time.Hour)
	s.want(reconnect.Wake{}, "fetch 2", "connecting")
}

func TestTheApplicationOverridesTheTable(t *testing.T) {
	s := newScript(t, reconnect.Policy{CloseCodes: map[int]reconnect.CloseRule{
		4403: reconnect.CloseRetry, 4500: reconnect.CloseEnd, 4501: reconnect.CloseLogin, 4502: reconnect.CloseRestart, 4503: reconnect.CloseBusy,
	}})
	s.do(reconnect.Start{})
	s.want(reconnect.Closed{Conn: s.open(), Code: 4403}, "waiting 250ms")
	s.want(reconnect.Closed{Conn: s.open(), Code: 4502}, "waiting 17.5s")
	s.want(reconnect.Closed{Conn: s.open(), Code: 4503, Reason: "retry=1000-3000"}, "waiting 2s")
	for range 2 {
		s.do(reconnect.Closed{Conn: s.open(), Code: 4501})
	}
	s.want(reconnect.Closed{Conn: s.open(), Code: 4501}, "ended unauthorized")
	s.do(reconnect.Start{})
	s.want(reconnect.Closed{Conn: s.open(), Code: 4500}, "ended refused")
}

// A page need not show every blip: only what lasts.
func TestTheCalmSignal(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.after(6 * time.Second)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.wantAfter(2999 * time.Millisecond)
	if s.m.Status().Interrupted {
		t.Error("interrupted before 3 s")
	}
	s.wantAfter(time.Millisecond, "waiting 1s")
	if !s.m.Status().Interrupted {
		t.Error("not interrupted after 3 s")
	}
	s.frame(s.open(), welcome)
	if s.m.Status().Interrupted {
		t.Error("interrupted while live")
	}
	s.do(reconnect.Closed{Conn: 2, Code: 4403})
	if !s.m.Status().Interrupted {
		t.Error("an end is not said at once")
	}
}

func TestTotalsAndHistory(t *testing.T) {
	s, conn := following(t)
	s.frame(conn, `{"t":"events","from":10,"stream":"a","data":[10,11,12]}`)
	s.frame(conn, `{"t":"event","seq":12,"stream":"a","data":12}`)
	s.frame(conn, `{"t":"event","seq":99,"stream":"b","data":1}`)
	s.do(send("m"))
	s.after(6 * time.Second)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.frame(s.open(), welcomeWith(`{"a":{"seq":15,"epoch":"e","first":3,"resync":false}}`))
	s.frame(2, `{"t":"ack","id":"m"}`)
	s.do(reconnect.Closed{Conn: 2, Code: 1006})
	s.frame(s.open(), welcomeWith(`{"a":{"seq":1,"epoch":"f","first":0,"resync":true}}`))
	s.frame(3, `{"t":"snapshot","seq":1,"epoch":"f","stream":"a","state":1}`)
	s.frame(3, `nonsense`)
	got := s.m.Totals()
	if got.BytesIn == 0 || got.BytesOut == 0 {
		t.Errorf("bytes %d in, %d out", got.BytesIn, got.BytesOut)
	}
	got.BytesIn, got.BytesOut = 0, 0
	want := reconnect.Totals{
		Attempts: 3, Sessions: 3, Resumed: 2, Replayed: 3, Gaps: 1, Snapshots: 1,
		Delivered: 2, Duplicates: 2, Unwanted: 1, Bad: 1, Sent: 2, Accepted: 1,
	}
	want.Recovery.Counts[5], want.Recovery.Counts[6], want.Recovery.Sum = 1, 1, 12*time.Second
	if got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	var states []string
	for _, h := range s.m.History() {
		states = append(states, h.State.String())
	}
	if len(states) != 10 || states[0] != "waiting" || states[9] != "waiting" {
		t.Errorf("history %v", states)
	}
	for range 300 {
		s.do(reconnect.DialNow{})
		s.do(reconnect.Sleep{})
	}
	h := s.m.History()
	if len(h) != 200 {
		t.Fatalf("%d transitions, want 200", len(h))
	}
	for i := 1; i < len(h); i++ {
		if h[i].At.Before(h[i-1].At) {
			t.Errorf("transition %d is out of order", i)
		}
	}
}
