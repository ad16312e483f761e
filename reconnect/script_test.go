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

// script drives a machine by hand, in virtual time, and turns its actions into
// lines that a test compares as a whole.
type script struct {
	t    *testing.T
	m    *reconnect.Machine
	now  time.Time
	rand float64 // what Rand returns
	last []reconnect.Action
}

func newScript(t *testing.T, p reconnect.Policy) *script {
	t.Helper()
	s := &script{t: t, now: time.UnixMilli(1_000_000), rand: 0.5}
	if p.Rand == nil {
		p.Rand = func() float64 { return s.rand }
	}
	m, err := reconnect.NewMachine(p)
	if err != nil {
		t.Fatal(err)
	}
	s.m = m
	return s
}

// do hands an event over and returns the actions as lines.
func (s *script) do(ev reconnect.Event) []string {
	s.last = slices.Clone(s.m.Handle(s.now, ev))
	lines := make([]string, 0, len(s.last))
	for _, a := range s.last {
		lines = append(lines, line(s.now, a))
	}
	return lines
}

// want hands an event over and compares the actions.
func (s *script) want(ev reconnect.Event, want ...string) {
	s.t.Helper()
	if got := s.do(ev); !slices.Equal(got, want) {
		s.t.Fatalf("after %T %+v\n got %s\nwant %s", ev, ev, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// after lets d pass, ticking whenever the machine asks to.
func (s *script) after(d time.Duration) []string {
	var lines []string
	end := s.now.Add(d)
	for {
		left, ok := s.m.Next(s.now)
		if !ok || s.now.Add(left).After(end) {
			break
		}
		s.now = s.now.Add(left)
		lines = append(lines, s.do(reconnect.Tick{})...)
		if left == 0 && len(s.last) == 0 {
			s.t.Fatal("the machine asks to be ticked at once, and then does nothing: a hot loop")
		}
	}
	s.now = end
	return lines
}

func (s *script) wantAfter(d time.Duration, want ...string) {
	s.t.Helper()
	if got := s.after(d); !slices.Equal(got, want) {
		s.t.Fatalf("after %v\n got %s\nwant %s", d, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

// frame hands a frame of the server over.
func (s *script) frame(conn uint64, text string) []string {
	return s.do(reconnect.Received{Conn: conn, Data: []byte(text)})
}

func (s *script) wantFrame(conn uint64, text string, want ...string) {
	s.t.Helper()
	s.want(reconnect.Received{Conn: conn, Data: []byte(text)}, want...)
}

// live brings the machine to a confirmed session on its next connection.
func (s *script) live(welcome string) uint64 {
	s.t.Helper()
	if s.m.Status().State == reconnect.Idle {
		s.do(reconnect.Start{})
	}
	conn := s.open()
	s.frame(conn, welcome)
	if st := s.m.Status(); st.State != reconnect.Live {
		s.t.Fatalf("not live after the welcome: %+v", st)
	}
	return conn
}

// open answers the URL request and opens the socket.
func (s *script) open() uint64 {
	s.t.Helper()
	var fetch reconnect.FetchURL
	for range 1000 {
		for _, a := range s.last {
			if f, ok := a.(reconnect.FetchURL); ok {
				fetch = f
			}
		}
		if fetch.Attempt > 0 {
			break
		}
		left, ok := s.m.Next(s.now)
		if !ok {
			s.t.Fatalf("nothing will happen: %+v", s.m.Status())
		}
		s.now = s.now.Add(left)
		s.do(reconnect.Tick{})
	}
	s.do(reconnect.URLReady{Attempt: fetch.Attempt, URL: "ws://x"})
	dial, ok := s.last[0].(reconnect.Dial)
	if !ok {
		s.t.Fatalf("no dial but %+v", s.last)
	}
	s.do(reconnect.Opened{Conn: dial.Conn})
	return dial.Conn
}

const welcome = `{"t":"welcome","v":1,"session":"s1","gen":1000001,"user":"ada","seq":0,"epoch":"e0","first":0,"resync":false,"heartbeat":15000,"spread":8000,"dedupe":{"id":"d1","ms":600000}}`

// welcomeWith returns a welcome whose subs are the JSON object given.
func welcomeWith(subs string) string {
	return strings.TrimSuffix(welcome, "}") + `,"subs":` + subs + "}"
}

func line(now time.Time, a reconnect.Action) string {
	switch a := a.(type) {
	case reconnect.FetchURL:
		return fmt.Sprintf("fetch %d", a.Attempt)
	case reconnect.Dial:
		return fmt.Sprintf("dial %d", a.Conn)
	case reconnect.Write:
		return fmt.Sprintf("write %d %s", a.Conn, a.Data)
	case reconnect.Abandon:
		return fmt.Sprintf("abandon %d %d %s", a.Conn, a.Code, a.Reason)
	case reconnect.Probe:
		return fmt.Sprintf("probe %d", a.N)
	case reconnect.Deliver:
		if a.Asked.Has {
			return fmt.Sprintf("deliver %s to %d %s", deliverLine(a), a.Asked.After, a.Asked.Epoch)
		}
		return "deliver " + deliverLine(a)
	case reconnect.Settle:
		return strings.TrimSpace(fmt.Sprintf("settle %s %s %s %s", a.ID, a.Outcome, a.Result, a.Code))
	case reconnect.Report:
		st := a.Status
		s := st.State.String()
		if st.Cause != "" {
			s += " " + st.Cause
		}
		if !st.NextRetry.IsZero() {
			s += " " + st.NextRetry.Sub(now).String()
		}
		return s
	case reconnect.Problem:
		return "problem " + a.Text
	}
	return fmt.Sprintf("%T", a)
}

func deliverLine(a reconnect.Deliver) string {
	switch f := a.Frame.(type) {
	case wire.Welcome:
		return "welcome"
	case wire.Event:
		return fmt.Sprintf("%s %d=%s", f.Stream, f.Seq, f.Data)
	case wire.Events:
		s := f.Stream
		for i := a.Skip; i < len(f.Data); i++ {
			s += fmt.Sprintf(" %d=%s", f.From+uint64(i), f.Data[i])
		}
		return s
	}
	return string(a.Frame.Append(nil))
}
