package reconnect_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// failing returns a script whose dials fail until the first probe is out.
func failing(t *testing.T) (s *script, dials int) {
	t.Helper()
	s = newScript(t, reconnect.Policy{Probe: true})
	s.do(reconnect.Start{})
	return s, failUntilProbe(s)
}

func failUntilProbe(s *script) (dials int) {
	for range 20 {
		conn := s.open()
		dials++
		if slices.ContainsFunc(s.do(reconnect.Closed{Conn: conn, Code: 1006}), func(l string) bool { return strings.HasPrefix(l, "probe") }) {
			return dials
		}
	}
	return dials
}

func TestTheProbeTellsWhatAFailedHandshakeDoesNot(t *testing.T) {
	for name, c := range map[string]struct {
		done  reconnect.ProbeDone
		cause string
		hint  string
	}{
		"fine":           {reconnect.ProbeDone{Status: 204, Marker: true}, "", "WebSocket blocked"},
		"something else": {reconnect.ProbeDone{Status: 204}, "", "captive portal"},
		"a login page":   {reconnect.ProbeDone{Status: 200}, "", "captive portal"},
		"expired":        {reconnect.ProbeDone{Status: 401}, "unauthorized", ""},
		"forbidden":      {reconnect.ProbeDone{Status: 403}, "", "403"},
		"redirected":     {reconnect.ProbeDone{Redirected: true}, "", "redirected"},
		"unreachable":    {reconnect.ProbeDone{Err: "refused"}, "", "unreachable"},
		"broken":         {reconnect.ProbeDone{Status: 500}, "", "500"},
		"not modified":   {reconnect.ProbeDone{Status: 304}, "", "304"},
		"busy":           {reconnect.ProbeDone{Status: 503, RetryAfter: 20 * time.Second}, "", "try later"},
	} {
		t.Run(name, func(t *testing.T) {
			s, dials := failing(t)
			if dials != 3 {
				t.Fatalf("probed after %d dials, want 3", dials)
			}
			c.done.N = 1
			s.do(c.done)
			st := s.m.Status()
			if st.Cause != c.cause || !strings.Contains(st.Hint, c.hint) {
				t.Errorf("got cause %q hint %q", st.Cause, st.Hint)
			}
			if wait := st.NextRetry.Sub(s.now); name == "busy" && wait != 30*time.Second {
				t.Errorf("Retry-After: wait %v, want 20s + U(0, 20s)", wait)
			}
			if c.cause == "" {
				s.wantFrame(s.open(), welcome, "deliver welcome", "live")
				if hint := s.m.Status().Hint; hint != "" {
					t.Errorf("hint %q after the welcome", hint)
				}
			}
		})
	}
}

func TestTheNextDialWaitsForTheProbe(t *testing.T) {
	s, _ := failing(t)
	s.wantAfter(5*time.Second, "waiting -1.25s")   // now it shows
	s.want(reconnect.ProbeDone{N: 9, Status: 401}) // not ours
	s.wantAfter(time.Second, "fetch 4", "connecting")
	s.want(reconnect.ProbeDone{N: 1, Status: 401}) // too late
}

func TestProbesAreRare(t *testing.T) {
	s := newScript(t, reconnect.Policy{Probe: true, Rand: func() float64 { return 0.001 }})
	s.do(reconnect.Start{})
	var at []time.Time
	for range 400 {
		conn := s.open()
		for _, l := range s.do(reconnect.Closed{Conn: conn, Code: 1006}) {
			if strings.HasPrefix(l, "probe") {
				at = append(at, s.now)
				s.do(reconnect.ProbeDone{N: uint64(len(at)), Err: "refused"})
			}
		}
		s.now = s.now.Add(time.Second)
	}
	if len(at) < 3 || len(at) > 7 {
		t.Errorf("%d probes in 400 failures", len(at))
	}
	for i := 1; i < len(at); i++ {
		if gap := at[i].Sub(at[i-1]); gap < time.Minute {
			t.Errorf("probe %d came %v after the one before", i, gap)
		}
	}
}

func TestARefusalOverHTTPEndsTheClientTheThirdTime(t *testing.T) {
	for cause, done := range map[string]reconnect.ProbeDone{
		"forbidden":    {Status: 403},
		"not found":    {Status: 404},
		"gone":         {Status: 410},
		"unauthorized": {Redirected: true},
	} {
		s, _ := failing(t)
		for n := range uint64(3) {
			if n > 0 {
				s.now = s.now.Add(time.Minute)
				failUntilProbe(s)
			}
			if s.m.Status().State == reconnect.Ended {
				t.Fatalf("%s: ended after %d", cause, n)
			}
			done.N = n + 1
			s.do(done)
		}
		if st := s.m.Status(); st.Cause != cause {
			t.Errorf("got %+v, want the cause %q", st, cause)
		}
	}
}
