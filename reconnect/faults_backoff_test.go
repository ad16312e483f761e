package reconnect_test

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// An exponent that overflows makes waits of zero, or a panic, after 36 to 64
// failures.
func TestAfterTenThousandFailuresWaitsStillAverageHalfTheCap(t *testing.T) {
	for _, p := range []reconnect.Policy{
		{Base: time.Millisecond, Cap: time.Second},
		{Base: 100 * time.Millisecond},
		{Base: time.Second, Cap: 24 * time.Hour},
	} {
		p.Rand = rand.New(rand.NewPCG(1, 2)).Float64
		s := newScript(t, p)
		limit := s.m.Policy().Cap
		s.do(reconnect.Start{})
		const early, all = 100, 10_000
		var sum time.Duration
		for i := range all {
			s.do(reconnect.URLFailed{Attempt: uint64(i) + 1, Err: "no"}) //nolint:gosec // small
			wait := s.m.Status().NextRetry.Sub(s.now)
			if wait < 0 || wait > limit {
				t.Fatalf("base %v, failure %d: wait %v, want at most %v", p.Base, i, wait, limit)
			}
			if i >= early {
				sum += wait / (all - early)
			}
			s.now = s.now.Add(wait)
			s.do(reconnect.Tick{})
		}
		if sum < limit*48/100 || sum > limit*52/100 {
			t.Errorf("base %v: waits average %v, want half of %v", p.Base, sum, limit)
		}
	}
	if _, err := reconnect.NewMachine(reconnect.Policy{Base: time.Minute, Cap: time.Second, Rand: rand.Float64}); err == nil {
		t.Error("a cap below the base is taken")
	}
}

// A client without a limit never stops trying, one with a limit ends once, and is
// not beyond help.
func TestGivenUpIsNotForEver(t *testing.T) {
	revivals := map[string]reconnect.Event{
		"started":          reconnect.Start{},
		"reconnect now":    reconnect.DialNow{},
		"the page is seen": reconnect.Signal{Kind: reconnect.Visible},
	}
	for name, ev := range revivals {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reconnect.Policy{MaxAttempts: 2})
			s.do(reconnect.Start{})
			s.want(reconnect.Closed{Conn: s.open(), Code: 1006}, "waiting 250ms")
			s.want(reconnect.Closed{Conn: s.open(), Code: 1006}, "ended gave up")
			s.wantAfter(time.Hour)
			s.want(ev, "fetch 3", "connecting")
			if got := s.m.Status().Attempt; got != 1 {
				t.Errorf("goes on with attempt %d, want to begin afresh", got)
			}
		})
	}
}

// Closed is closed: whatever it was doing, no timer is left, and nothing that
// arrives late has an effect.
func TestAClosedClientNeitherDialsNorWantsATick(t *testing.T) {
	stages := map[string]func(s *script){
		"before the start": func(*script) {},
		"URL wanted":       func(s *script) { s.do(reconnect.Start{}) },
		"dialling": func(s *script) {
			s.do(reconnect.Start{})
			s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
		},
		"hello said": func(s *script) { s.do(reconnect.Start{}); s.open() },
		"live":       func(s *script) { s.live(welcome) },
		"verifying": func(s *script) {
			s.live(welcome)
			s.do(reconnect.Signal{Kind: reconnect.Visible})
		},
		"waiting": func(s *script) { s.do(reconnect.Closed{Conn: s.live(welcome), Code: 1006}) },
		"waiting for a floor": func(s *script) {
			s.do(reconnect.Closed{Conn: s.live(welcome), Code: 1013})
		},
		"asleep":    func(s *script) { s.live(welcome); s.do(reconnect.Sleep{}) },
		"probing":   func(s *script) { s.do(reconnect.Start{}); failUntilProbe(s) },
		"unstarted": func(s *script) { s.do(send("m")) },
	}
	for name, reach := range stages {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reconnect.Policy{Probe: true})
			reach(s)
			lines := s.do(reconnect.Stop{})
			if i := slices.Index(lines, "ended closed"); i != len(lines)-1 {
				t.Errorf("got %q, want one end, as the last thing", lines)
			}
			for _, late := range []reconnect.Event{
				reconnect.URLReady{Attempt: 1, URL: "ws://x"},
				reconnect.Opened{Conn: 1},
				reconnect.Received{Conn: 1, Data: []byte(welcome)},
				reconnect.Received{Conn: 1, Data: []byte(`{"t":"pong","n":1}`)},
				reconnect.Closed{Conn: 1, Code: 1006},
				reconnect.ProbeDone{N: 1, Status: 204, Marker: true},
				reconnect.Signal{Kind: reconnect.Visible},
				reconnect.Signal{Kind: reconnect.Online},
				reconnect.Wake{},
				reconnect.Reauthorize{},
			} {
				s.want(late)
			}
			if left, ok := s.m.Next(s.now); ok {
				t.Errorf("a timer is left: due in %v", left)
			}
			s.wantAfter(time.Hour)
		})
	}
}

// The socket hangs before the answer to the upgrade, and the answer comes after
// the attempt was given up.
func TestAnUpgradeThatIsAnsweredTooLateHasNoEffect(t *testing.T) {
	s := newScript(t, reconnect.Policy{DialTimeout: 3 * time.Second})
	s.do(reconnect.Start{})
	s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
	s.wantAfter(3*time.Second, "abandon 1 4408 the socket did not open within 3s", "waiting 250ms")
	s.want(reconnect.Opened{Conn: 1})
	s.wantAfter(250*time.Millisecond, "fetch 2", "connecting")
	s.want(reconnect.URLReady{Attempt: 2, URL: "ws://x"}, "dial 2", "connecting")
	s.want(reconnect.Opened{Conn: 1})
	s.wantFrame(1, welcome)
	s.want(reconnect.Closed{Conn: 1, Code: 1000})
	if st := s.m.Status(); st.State != reconnect.Connecting || st.Attempt != 2 {
		t.Errorf("got %+v, want one failure and the second attempt under way", st)
	}
}

// There is no lazy mode: a connection is kept, and sought, also while nothing is
// subscribed to.
func TestAClientThatFollowsNothingKeepsConnecting(t *testing.T) {
	s, conn := following(t)
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.do(reconnect.Unsubscribe{Stream: "a"})
	s.open()
	s.wantFrame(2, welcome, "deliver welcome", "live")
}

// Five hundred clients of one server that is down for ten seconds: no quarter of a
// second takes more than a tenth of them, and nobody waits longer than the cap.
func TestNoQuarterOfASecondTakesATenthOfTheClients(t *testing.T) {
	for _, outage := range []time.Duration{0, time.Second, 3 * time.Second, 10 * time.Second} {
		lives := storm(t, 500, outage, 1006)
		if most := busiest(lives, 250*time.Millisecond); most >= 50 {
			t.Errorf("outage of %v: %d clients in the fullest quarter of a second, want fewer than 50", outage, most)
		}
		if last := slices.Max(lives); last > outage+30*time.Second {
			t.Errorf("outage of %v: one client came back only %v after it", outage, last-outage)
		}
	}
}

// A token may have expired since the last dial: the URL is asked for on each path.
func TestEveryWayToADialAsksForAFreshURL(t *testing.T) {
	lose := func(code int) func(s *script) {
		return func(s *script) {
			conn := s.live(welcome)
			s.after(6 * time.Second)
			s.do(reconnect.Closed{Conn: conn, Code: code})
		}
	}
	ways := map[string]struct {
		before func(s *script)
		kick   reconnect.Event
	}{
		"the first":       {func(*script) {}, reconnect.Start{}},
		"the timer":       {lose(1006), reconnect.Tick{}},
		"visible":         {lose(1006), reconnect.Signal{Kind: reconnect.Visible}},
		"online":          {lose(1006), reconnect.Signal{Kind: reconnect.Online}},
		"reconnect now":   {lose(1013), reconnect.DialNow{}},
		"a new login":     {lose(1006), reconnect.Reauthorize{}},
		"an ended client": {lose(4403), reconnect.Signal{Kind: reconnect.Visible}},
		"a page that comes back": {func(s *script) {
			s.live(welcome)
			s.do(reconnect.Sleep{})
			s.now = s.now.Add(5 * time.Minute)
		}, reconnect.Wake{}},
		"a node that drains": {func(s *script) {
			s.frame(s.live(welcome), `{"t":"drain","within":100}`)
		}, reconnect.Tick{}},
	}
	for name, way := range ways {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, reconnect.Policy{})
			way.before(s)
			lines := s.do(way.kick)
			lines = append(lines, s.after(20*time.Second)...) // the URL takes longer
			var dials []string
			for _, l := range lines {
				if strings.HasPrefix(l, "dial") || strings.HasPrefix(l, "fetch") {
					dials = append(dials, l)
				}
			}
			if len(dials) == 0 || slices.ContainsFunc(dials, func(l string) bool { return strings.HasPrefix(l, "dial") }) {
				t.Errorf("got %q, want URLs asked for and no dial without one", dials)
			}
		})
	}
}

// A rate limit met while the network changes is no verdict on the client.
func TestAnAnswerOfTooManyOrBrokenOverHTTPNeverEndsTheClient(t *testing.T) {
	for _, status := range []int{407, 408, 421, 429, 500, 502, 503, 504} {
		s, _ := failing(t)
		for n := range uint64(5) {
			s.do(reconnect.ProbeDone{N: n + 1, Status: status})
			if st := s.m.Status(); st.State != reconnect.Waiting || st.NextRetry.IsZero() {
				t.Fatalf("%d: %+v", status, st)
			}
			s.now = s.now.Add(time.Minute)
			failUntilProbe(s)
		}
		s.do(reconnect.ProbeDone{N: 6, Status: 204, Marker: true})
		s.wantFrame(s.open(), welcome, "deliver welcome", "live")
	}
}
