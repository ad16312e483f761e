package hub_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
	"github.com/longwire/longwire/wire"
)

// script drives a hub by hand, in virtual time, and turns its actions into lines
// that a test compares as a whole.
type script struct {
	t   *testing.T
	h   *hub.Hub
	now time.Time
	gen uint64 // of the last envelope that the hub posted
	out []string
}

// newScript returns a hub with the id H in the tab own. Others are other tabs that
// are expected; -2: none are possible.
func newScript(t *testing.T, others int) *script {
	t.Helper()
	s := &script{t: t, now: time.UnixMilli(1_000_000)}
	o := hub.Options{ID: "H", Tab: "own", Others: others}
	if others == -2 {
		o = hub.Options{}
	}
	h, err := hub.New(reconnect.Policy{Rand: func() float64 { return 0.5 }}, o)
	if err != nil {
		t.Fatal(err)
	}
	s.h = h
	return s
}

func (s *script) take(actions []hub.Action) []string {
	s.out = s.out[:0]
	for _, a := range actions {
		s.out = append(s.out, s.line(a))
	}
	return s.out
}

func (s *script) want(got []string, want ...string) {
	s.t.Helper()
	if !slices.Equal(got, want) {
		s.t.Fatalf("\n got %s\nwant %s", strings.Join(got, "\n     "), strings.Join(want, "\n     "))
	}
}

func (s *script) event(ev reconnect.Event) []string { return s.take(s.h.Event(s.now, ev)) }

func (s *script) own(text string) []string { return s.take(s.h.FromOwn(s.now, []byte(text))) }

// from posts a frame as another tab that heeds the hub.
func (s *script) from(tab, text string) []string { return s.fromAt(s.gen, tab, text) }

func (s *script) fromAt(gen uint64, tab, text string) []string {
	return s.post(wire.Envelope{Gen: gen, Tab: tab, Frame: wire.Raw(text)})
}

func (s *script) post(e wire.Envelope) []string {
	return s.take(s.h.FromChannel(s.now, e.Append(nil)))
}

func (s *script) frame(conn uint64, text string) []string {
	return s.event(reconnect.Received{Conn: conn, Data: []byte(text)})
}

// after lets d pass, ticking whenever the hub asks to.
func (s *script) after(d time.Duration) []string {
	s.t.Helper()
	var lines []string
	end := s.now.Add(d)
	for range 1000 {
		left, ok := s.h.Next(s.now)
		if !ok || s.now.Add(left).After(end) {
			s.now = end
			return lines
		}
		s.now = s.now.Add(left)
		lines = append(lines, s.event(reconnect.Tick{})...)
	}
	s.t.Fatal("the hub asks to be ticked for ever")
	return nil
}

func (s *script) line(a hub.Action) string {
	switch a.Kind {
	case hub.Tell:
		return "own " + brief(s.t, a.Text)
	case hub.Post:
		text := string(a.Head) + string(a.Text) + "}"
		e, err := wire.DecodeEnvelope([]byte(text))
		if err != nil || e.Hub != "H" {
			s.t.Fatalf("posted %s: %v", text, err)
		}
		s.gen = e.Gen
		to := e.To
		if to == "" {
			to = "all"
		}
		if a.Room != 0 {
			to += fmt.Sprintf(" in room %d", a.Room)
		}
		return to + " " + brief(s.t, e.Frame)
	case hub.Ask:
		return "ask"
	case hub.Do:
		switch a := a.Do.(type) {
		case reconnect.Dial:
			return fmt.Sprintf("dial %d %s", a.Conn, a.URL)
		case reconnect.Write:
			return fmt.Sprintf("write %d %s", a.Conn, a.Data)
		case reconnect.Abandon:
			return fmt.Sprintf("abandon %d %d", a.Conn, a.Code)
		}
		return fmt.Sprintf("%T", a.Do)
	}
	return "invalid"
}

// brief is a frame's text, of a state only what the tests look at.
func brief(t *testing.T, text []byte) string {
	t.Helper()
	f, err := wire.DecodeFromHub(text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	state, ok := f.(wire.HubState)
	if !ok {
		return string(text)
	}
	s := "hub " + state.State
	for word, said := range map[string]bool{" resume": state.Resume} {
		if said {
			s += word
		}
	}
	if state.Beat {
		s += " beat"
	}
	if state.Room != 0 {
		s += fmt.Sprintf(" room %d", state.Room)
	}
	if state.Asleep {
		s += " asleep"
	}
	if len(state.Quiet) > 0 {
		s += fmt.Sprint(" quiet ", state.Quiet)
	}
	return s
}

const welcome = `{"t":"welcome","v":1,"session":"s1","gen":1,"user":"ada","seq":0,"epoch":"e0","first":0,"resync":false,"heartbeat":15000,"spread":1000,"dedupe":{"id":"d1","ms":600000}}`

// welcomeWith returns a welcome whose subs are the JSON object given.
func welcomeWith(subs string) string {
	return strings.TrimSuffix(welcome, "}") + `,"subs":` + subs + "}"
}
