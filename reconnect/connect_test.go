package reconnect_test

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

func TestAConnectionFromStartToLive(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.want(reconnect.Start{}, "fetch 1", "connecting")
	s.want(reconnect.URLReady{Attempt: 1, URL: "ws://x"}, "dial 1", "connecting")
	s.want(reconnect.Opened{Conn: 1}, `write 1 {"t":"resume","v":1,"gen":1000000,"batch":true}`, "connecting")
	s.wantFrame(1, welcome, "deliver welcome", "live")
	if st := s.m.Status(); st.Session != "s1" || st.User != "ada" || st.Attempt != 0 {
		t.Errorf("got %+v", st)
	}
}

func TestCloseDuringThePendingURLDialsNothing(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Start{})
	s.want(reconnect.Stop{}, "ended closed")
	s.want(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
	s.wantAfter(time.Hour)

	// Closed and started again: only the answer to the second request counts.
	s.want(reconnect.Start{}, "fetch 2", "connecting")
	s.want(reconnect.URLReady{Attempt: 1, URL: "ws://old"})
	s.want(reconnect.URLReady{Attempt: 2, URL: "ws://new"}, "dial 1", "connecting")
}

func TestCloseDuringTheWaitDialsNothing(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Start{})
	s.want(reconnect.URLFailed{Attempt: 1, Err: "no"}, "waiting 250ms")
	s.want(reconnect.Stop{}, "ended closed")
	s.wantAfter(time.Hour)
	s.want(reconnect.Signal{Kind: reconnect.Visible})
	s.wantAfter(time.Hour)
}

// A callback that throws, or a server that opens and drops at once, must not
// become a hot loop: the waits grow to the cap although every attempt "opened".
func TestFailuresGrowToTheCapWhateverFails(t *testing.T) {
	attempts := map[string]func(s *script){
		"the URL callback throws": func(s *script) {
			s.do(reconnect.URLFailed{Attempt: s.last[0].(reconnect.FetchURL).Attempt, Err: "no"})
		},
		"the URL callback never answers": func(s *script) { s.after(10 * time.Second) },
		"the socket never opens": func(s *script) {
			s.do(reconnect.URLReady{Attempt: s.last[0].(reconnect.FetchURL).Attempt})
			s.after(10 * time.Second)
		},
		"it opens and closes at once": func(s *script) {
			s.do(reconnect.Closed{Conn: s.open(), Code: 1011})
		},
		"no welcome": func(s *script) {
			s.open()
			s.after(10 * time.Second)
		},
	}
	for name, attempt := range attempts {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reconnect.Policy{Rand: func() float64 { return 0.999999 }})
			s.do(reconnect.Start{})
			last := time.Duration(0)
			for i := range 40 {
				attempt(s)
				st := s.m.Status()
				if st.State != reconnect.Waiting || st.NextRetry.IsZero() {
					t.Fatalf("attempt %d: %+v", i, st)
				}
				wait := st.NextRetry.Sub(s.now)
				if wait < last-10*time.Second || wait > 30*time.Second {
					t.Fatalf("attempt %d: wait %v after %v", i, wait, last)
				}
				last = max(last, wait)
				s.now = st.NextRetry.Add(time.Millisecond)
				s.do(reconnect.Tick{})
			}
			if last < 29*time.Second {
				t.Errorf("longest wait %v, want the cap of 30s", last)
			}
		})
	}
}

// A welcome that is lost at once, again and again, is a failure too.
func TestTheCountStartsAgainOnlyAfterAWelcomeThatHeld(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	for i, want := range []time.Duration{
		4 * time.Second, // the first loss of a confirmed session: U(0, spread)
		8 * time.Second, // later tries: U(0, max(2*spread, ladder))
		8 * time.Second, 8 * time.Second, 8 * time.Second, 8 * time.Second, 15 * time.Second, 15 * time.Second,
	} {
		conn := s.live(welcome)
		s.do(reconnect.Closed{Conn: conn, Code: 1006})
		if got := s.m.Status().NextRetry.Sub(s.now); got != want {
			t.Errorf("loss %d: wait %v, want %v", i, got, want)
		}
	}
	conn := s.live(welcome)
	s.after(5 * time.Second)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	if got := s.m.Status().NextRetry.Sub(s.now); got != 4*time.Second {
		t.Errorf("after a session that held: wait %v, want 4s", got)
	}
}

func TestWaitsStayInBoundsAtAnyAttempt(t *testing.T) {
	for _, p := range []reconnect.Policy{
		{}, {Base: time.Millisecond, Cap: time.Second}, {Base: time.Second, Cap: 24 * time.Hour}, {Base: time.Hour, Cap: time.Hour},
	} {
		for _, r := range []float64{1e-6, 0.5, 0.999999999} {
			p.Rand = func() float64 { return r }
			s := newScript(t, p)
			s.do(reconnect.Start{})
			limit := p.Cap
			if limit == 0 {
				limit = 30 * time.Second
			}
			for i := range 200 {
				s.do(reconnect.URLFailed{Attempt: uint64(i + 1), Err: "no"})
				wait := s.m.Status().NextRetry.Sub(s.now)
				if wait < 0 || wait > limit || i > 100 && wait != time.Duration(r*float64(limit)) {
					t.Fatalf("attempt %d with base %v cap %v rand %v: wait %v", i, p.Base, p.Cap, r, wait)
				}
				s.now = s.now.Add(wait)
				s.do(reconnect.Tick{})
			}
		}
	}
}

// The table of close codes, the same before a welcome and after one.
func TestCloseCodes(t *testing.T) {
	const plain = "plain"
	for _, c := range []struct {
		code   int
		reason string
		want   string // the cause of the end, or the range of the wait
	}{
		{1000, "bye", "finished"},
		{1001, "", plain},
		{1002, "", plain},
		{1003, "", plain},
		{1005, "", plain},
		{1006, "", plain},
		{1007, "", plain},
		{1008, "", "policy"},
		{1011, "", plain},
		{1012, "", "5s-30s"},
		{1013, "", "15s-30s"},
		{1014, "", plain},
		{1015, "", plain},
		{3000, "", plain},
		{4000, "", plain},
		{4001, "", plain},
		{4400, "", "bad request"},
		{4403, "", "forbidden"},
		{4404, "", "not found"},
		{4410, "", "gone"},
		{4429, "", "15s-30s"},
		{4499, "", plain},
		{4999, "", plain},
		{1012, "retry=1000-9000", "1s-9s"},
		{1013, "retry=0-0", "0s-500ms"},
		{4429, "retry=9-1", "15s-30s"},
		{1012, "retry=999999999-9999999999", "5s-30s"},
		{1012, "retry=80000000-86400000", "10m0s-20m0s"},
		{1001, "retry=1000-9000", plain},
	} {
		for _, confirmed := range []bool{false, true} {
			wait := func(r float64) (string, time.Duration) {
				s := newScript(t, reconnect.Policy{Rand: func() float64 { return r }})
				s.do(reconnect.Start{})
				var conn uint64
				if confirmed {
					conn = s.live(welcome)
				} else {
					conn = s.open()
				}
				s.do(reconnect.Closed{Conn: conn, Code: c.code, Reason: c.reason})
				st := s.m.Status()
				if st.LastClose == nil || st.LastClose.Code != c.code || st.LastClose.Reason != c.reason || st.LastClose.Opened != confirmed {
					t.Errorf("%d: last close %+v", c.code, st.LastClose)
				}
				return st.Cause, st.NextRetry.Sub(s.now)
			}
			cause, low := wait(1e-6)
			_, high := wait(1)
			got := low.Round(10*time.Millisecond).String() + "-" + high.String()
			if cause != "" {
				got = cause
			}
			want := c.want
			if want == plain {
				want = map[bool]string{false: "0s-500ms", true: "0s-8s"}[confirmed]
			}
			if got != want {
				t.Errorf("%d %q, confirmed %v: got %s want %s", c.code, c.reason, confirmed, got, want)
			}
		}
	}
}

func TestExpiredLogin(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	s.after(6 * time.Second)
	// The session had held: a fresh URL at once.
	s.want(reconnect.Closed{Conn: conn, Code: 4401}, "fetch 2", "connecting")
	s.want(reconnect.URLReady{Attempt: 2, URL: "ws://fresh"}, "dial 2", "connecting")
	s.do(reconnect.Opened{Conn: 2})
	s.want(reconnect.Closed{Conn: 2, Code: 4401}, "waiting 8s")
	s.want(reconnect.Closed{Conn: s.open(), Code: 4401}, "ended unauthorized")
	s.wantAfter(time.Hour)
	// A new login revives it.
	s.want(reconnect.Reauthorize{}, "fetch 4", "connecting")
	s.wantFrame(s.open(), welcome, "deliver welcome", "live")
	s.after(6 * time.Second)
	// The refused login offered again is not fresh: no dial at once, but a wait.
	s.want(reconnect.Closed{Conn: 4, Code: 4401}, "fetch 5", "connecting")
	s.want(reconnect.URLReady{Attempt: 5, URL: "ws://x"}, "waiting 8s")
	s.wantAfter(8*time.Second, "waiting 5s", "fetch 6", "connecting")
	s.want(reconnect.URLReady{Attempt: 6, URL: "ws://x"}, "dial 5", "connecting")
}

func TestASupersededConnection(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(welcome)
	for i := range 3 {
		s.do(reconnect.Closed{Conn: conn, Code: 4409, Reason: "gen=5000000"})
		conn = s.open()
		write := s.last[0].(reconnect.Write)
		want := `{"t":"resume","v":1,"session":"s1","gen":500000` + string(rune('1'+i)) + `,"user":"ada","batch":true}`
		if string(write.Data) != want {
			t.Fatalf("got %s\nwant %s", write.Data, want)
		}
		s.frame(conn, welcome)
	}
	// Somebody keeps taking it: leave the session to them.
	s.want(reconnect.Closed{Conn: conn, Code: 4409, Reason: "gen=5000000"}, "waiting 8s")
	s.open()
	if write := s.last[0].(reconnect.Write); strings.Contains(string(write.Data), "session") {
		t.Errorf("got %s, want no session", write.Data)
	}
}

func TestAWelcomeForAnotherUserEndsTheClient(t *testing.T) {
	s := newScript(t, reconnect.Policy{Identity: "ada"})
	s.do(reconnect.Subscribe{Stream: "a"})
	s.do(reconnect.Send{ID: "m1", Body: wire.Raw("1")})
	s.do(reconnect.Start{})
	conn := s.open()
	s.wantFrame(conn, strings.Replace(welcomeWith(`{"a":{"seq":4,"epoch":"e","first":0,"resync":false}}`), "ada", "bob", 1),
		"abandon 1 1000 identity changed", "settle m1 not-sent  ended", "ended identity changed")
}

func TestLateEventsOfAnOldSocketDoNothing(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Subscribe{Stream: "a"})
	old := s.live(welcomeWith(`{"a":{"seq":0,"epoch":"e","first":0,"resync":false}}`))
	s.do(reconnect.Closed{Conn: old, Code: 1006})
	conn := s.live(welcomeWith(`{"a":{"seq":0,"epoch":"e","first":0,"resync":false}}`))
	s.wantFrame(old, `{"t":"event","seq":1,"stream":"a","data":1}`)
	s.want(reconnect.Closed{Conn: old, Code: 4403})
	s.want(reconnect.Opened{Conn: old})
	s.wantFrame(conn, `{"t":"event","seq":1,"stream":"a","data":1}`, "deliver a 1=1")
}

func TestPolicyErrorsNameEachField(t *testing.T) {
	_, err := reconnect.NewMachine(reconnect.Policy{Base: -1, Cap: 48 * time.Hour, MaxPending: -1, Identity: strings.Repeat("x", 300)})
	if err == nil {
		t.Fatal("no error")
	}
	for _, name := range []string{"Base", "Cap", "MaxPending", "Rand", "Identity"} {
		if !strings.Contains(err.Error(), "reconnect: "+name+": ") {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if strings.Contains(err.Error(), "Expiry") {
		t.Errorf("%v names a field that is fine", err)
	}
	if errors.Unwrap(err) != nil {
		t.Errorf("one error wanted")
	}
}

// A server that has used the last fencing number up must not lock the client out:
// every resume with a higher one would be refused as malformed.
func TestTheLastFencingNumberEndsTheSessionOnly(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	conn := s.live(strings.Replace(welcome, `"gen":1000001`, `"gen":9007199254740991`, 1))
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.open()
	want := `write 2 {"t":"resume","v":1,"gen":` + strconv.FormatInt(s.now.UnixMilli(), 10) + `,"user":"ada","batch":true}`
	if got := line(s.now, s.last[0]); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

// A server that falls over a session, but would take a fresh one, is not offered
// the same session for ever; and an outage in which every attempt opens and is lost
// costs nothing of it.
func TestASessionThatNeverGetsAWelcomeIsLeftOut(t *testing.T) {
	offered := func(s *script) bool {
		s.open()
		return strings.Contains(string(s.last[0].(reconnect.Write).Data), `"session":"s1"`)
	}
	down := func() *script {
		s := newScript(t, reconnect.Policy{})
		s.do(reconnect.Subscribe{})
		s.do(reconnect.Subscribe{Stream: "a"})
		conn := s.live(welcomeWith(`{"a":{"seq":4,"epoch":"e","first":0,"resync":false}}`))
		s.frame(conn, `{"t":"event","seq":1,"data":1}`)
		s.do(reconnect.Closed{Conn: conn, Code: 1006})
		return s
	}
	s := down()
	for i := range 12 {
		if got, want := offered(s), i == 0 || i%4 != 0; got != want {
			t.Errorf("attempt %d: session offered %v, want %v", i, got, want)
		}
		s.do(reconnect.Closed{Conn: uint64(i + 2), Code: 1011})
	}
	// The fresh one gets a welcome: what was missed of the session's own stream is
	// said, the named stream goes on.
	s = down()
	for i := range 4 {
		offered(s)
		s.do(reconnect.Closed{Conn: uint64(i + 2), Code: 1011})
	}
	if offered(s) {
		t.Fatal("the fifth attempt offers the session again")
	}
	fresh := strings.NewReplacer(`"s1"`, `"s2"`, `"e0"`, `"e9"`).Replace(welcomeWith(`{"a":{"seq":4,"epoch":"e","first":0,"resync":false}}`))
	s.wantFrame(6, fresh, "deliver welcome",
		`deliver {"t":"reset","seq":0,"epoch":"e9","first":0,"snapshot":false,"reason":"what was missed is gone"}`, "live")
	s.wantFrame(6, `{"t":"event","seq":1,"data":1}`, "deliver  1=1")
	s.wantFrame(6, `{"t":"event","seq":5,"stream":"a","data":5}`, "deliver a 5=5")
}
