package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"reflect"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/cmd/longwire/internal/faults"
)

func closeCode(err error) int { return int(websocket.CloseStatus(err)) }

func (s *running) report() faults.Report {
	s.t.Helper()
	status, body := s.request(http.MethodGet, "/faults/report", nil)
	var r faults.Report
	if err := json.Unmarshal([]byte(body), &r); err != nil || status != http.StatusOK {
		s.t.Fatalf("report: %d %s: %v", status, body, err)
	}
	return r
}

// reported waits until the report is as wanted.
func (s *running) reported(what string, ok func(faults.Report) bool) {
	s.t.Helper()
	eventually(s.t, "report: "+what, func() bool { return ok(s.report()) })
}

type published struct{ First, Last uint64 }

func TestFaultPublish(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(nil, "test/a")
	var one, three published
	s.fault(`publish?stream=test/a&data={"x":1}`, &one)
	s.fault("publish?stream=test/a&count=3&from=5", &three)
	if want := (published{1, 1}); one != want {
		t.Errorf("one event: %+v, want %+v", one, want)
	}
	if want := (published{2, 4}); three != want {
		t.Errorf("three events: %+v, want %+v", three, want)
	}
	for i, want := range []string{`{"x":1}`, `{"n":5}`, `{"n":6}`, `{"n":7}`} {
		if event := c.next("event"); string(event.Data) != want || event.Seq != uint64(i+1) || event.Stream != "test/a" {
			t.Errorf("event %+v with %s, want %d with %s", event, event.Data, i+1, want)
		}
	}
}

func TestFaultPublishTo(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(s.login("bob"))
	for user, want := range map[string]int{"bob": 1, "nobody": 0} {
		var answer struct{ Sessions int }
		if s.fault("publish-to?data=1&user="+user, &answer); answer.Sessions != want {
			t.Errorf("sessions of %s: %d, want %d", user, answer.Sessions, want)
		}
	}
	if event := c.next("event"); event.Stream != "" || string(event.Data) != "1" {
		t.Errorf("event %+v", event)
	}
}

func TestFaultDropSendsNoCloseFrame(t *testing.T) {
	s := startServe(t, "-faults")
	for how, want := range map[string]error{"fin": io.EOF, "rst": syscall.ECONNRESET} {
		a, b := s.connect(nil), s.connect(nil)
		var answer struct{ Connections int }
		s.fault("drop?how="+how, &answer)
		_, errA := a.read()
		_, errB := b.read()
		if !errors.Is(errA, want) || !errors.Is(errB, want) || answer.Connections != 2 {
			t.Errorf("%s: %d connections ended with %v and %v, want 2 with %v", how, answer.Connections, errA, errB, want)
		}
		if n := s.report().Connections; n != 0 {
			t.Errorf("%s: %d connections open afterwards", how, n)
		}
	}
}

func TestFaultCloseSendsCodeAndReason(t *testing.T) {
	s := startServe(t, "-faults")
	bob, anyone := s.connect(s.login("bob")), s.connect(nil)
	s.fault("close?code=4403&reason=go+away&user=bob", nil)
	s.wantClose(bob, 4403, "go away")
	s.fault("close?code=1012", nil)
	s.wantClose(anyone, 1012, "")
	s.reported("both answered", func(r faults.Report) bool {
		return r.Connections == 0 && reflect.DeepEqual(r.CloseCodes, map[uint16]int{4403: 1, 1012: 1})
	})
}

func (s *running) wantClose(c *client, code int, reason string) {
	s.t.Helper()
	_, err := c.read()
	if ce, ok := errors.AsType[websocket.CloseError](err); !ok || int(ce.Code) != code || ce.Reason != reason {
		s.t.Errorf("ended with %v, want %d %q", err, code, reason)
	}
}

// makeServerClose breaks the protocol, which the server answers with 4400.
func (c *client) makeServerClose() {
	c.t.Helper()
	c.send(map[string]any{"t": "resume"})
}

func TestFaultMuteOutSwallowsWholeMessages(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(nil, "test/a")
	s.fault("mute?dir=out", nil)
	s.fault("publish?stream=test/a&count=1", nil)
	s.reported("the event swallowed", func(r faults.Report) bool { return r.Muted == 1 })
	s.fault("mute?dir=off", nil)
	s.fault("publish?stream=test/a&count=1", nil)
	if event := c.next("event"); event.Seq != 2 {
		t.Errorf("event %+v, want the second one", event)
	}
}

func TestFaultMuteInSwallowsWholeMessages(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(nil)
	s.fault("mute?dir=in", nil)
	c.say("lost", map[string]any{"echo": 1})
	s.reported("the message swallowed", func(r faults.Report) bool { return r.Muted == 1 })
	s.fault("mute?dir=off", nil)
	c.say("heard", map[string]any{"echo": 2})
	if ack := c.next("ack"); ack.ID != "heard" {
		t.Errorf("ack %+v", ack)
	}
	if got, want := s.report().Effects, map[string]int{"heard": 1}; !reflect.DeepEqual(got, want) {
		t.Errorf("effects %v, want %v", got, want)
	}
}

func TestFaultMuteSparesLaterConnectionsIfAsked(t *testing.T) {
	s := startServe(t, "-faults")
	s.connect(nil)
	s.fault("mute?dir=both&which=open", nil)
	s.connect(nil).say("1", map[string]any{"echo": 1})
	s.reported("a message handled", func(r faults.Report) bool { return r.Effects["1"] == 1 })
}

func TestAMutedServerCannotEvenCloseItsConnections(t *testing.T) {
	t.Parallel() // the server takes its time for a goodbye
	s := startServe(t, "-faults")
	c := s.connect(nil)
	s.fault("mute?dir=out", nil)
	c.makeServerClose()
	s.reported("a connection held", func(r faults.Report) bool { return r.Held == 1 })
	s.fault("reset", nil)
	if _, err := c.read(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v, want EOF without a close frame", err)
	}
}

func TestFaultRefuseAnswersUpgrades(t *testing.T) {
	s := startServe(t, "-faults")
	s.fault("refuse?status=503&header=Retry-After:7&header=X-A:+b&times=2", nil)
	for i := range 3 {
		ws, res, err := s.dial(t.Context(), nil)
		if i == 2 {
			if err != nil {
				t.Fatalf("third dial: %v", err)
			}
			_ = ws.CloseNow()
			break
		}
		if err == nil || res.StatusCode != 503 || res.Header.Get("Retry-After") != "7" || res.Header.Get("X-A") != "b" {
			t.Fatalf("dial %d: %v, %v", i+1, err, res)
		}
	}
	s.fault("refuse?status=404&what=probes", nil)
	if status, _ := s.request(http.MethodGet, "/probe", nil); status != 404 {
		t.Errorf("probe: %d, want 404", status)
	}
	s.fault("refuse?status=off", nil)
	if status, _ := s.request(http.MethodGet, "/probe", nil); status != 204 {
		t.Errorf("probe after off: %d, want 204", status)
	}
	// The client has its 101 before the server counts it.
	s.reported("all counted", func(r faults.Report) bool {
		return r.Refused == 3 && r.Upgrades == 3 && r.Accepted == 1 && r.Probes == 2
	})
}

func TestFaultLoginRefusesUpgradesAndProbes(t *testing.T) {
	s := startServe(t, "-faults")
	s.fault("login?mode=refuse", nil)
	if _, res, err := s.dial(t.Context(), nil); err == nil || res.StatusCode != 401 {
		t.Errorf("dial: %v", err)
	}
	if status, _ := s.request(http.MethodGet, "/probe", nil); status != 401 {
		t.Errorf("probe: %d, want 401", status)
	}
	if n := s.report().LoginsRefused; n != 2 {
		t.Errorf("%d logins refused, want 2", n)
	}
	s.fault("login?mode=accept", nil)
	s.connect(nil)
}

func TestFaultHoldCloseKeepsTheSocketOpen(t *testing.T) {
	t.Parallel() // the server takes its time for a goodbye
	s := startServe(t, "-faults")
	c := s.connect(nil)
	s.fault("hold-close?state=on", nil)
	c.makeServerClose()
	s.reported("a connection held", func(r faults.Report) bool { return r.Held == 1 && r.Connections == 1 })
	s.fault("hold-close?state=off", nil)
	if _, err := c.read(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v, want EOF without a close frame", err)
	}
}

func TestAHeldConnectionGoesWhenTheClientLeaves(t *testing.T) {
	t.Parallel() // the server takes its time for a goodbye
	s := startServe(t, "-faults")
	c := s.connect(nil)
	s.fault("hold-close?state=on", nil)
	c.makeServerClose()
	s.reported("a connection held", func(r faults.Report) bool { return r.Held == 1 })
	if err := c.ws.CloseNow(); err != nil {
		t.Fatal(err)
	}
	s.reported("no connection open", func(r faults.Report) bool { return r.Connections == 0 && r.Held == 0 })
}

func TestFaultStallStopsReadingOnly(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(nil, "test/a")
	s.fault("stall?state=on", nil)
	c.say("1", map[string]any{"echo": 1})
	s.fault("publish?stream=test/a&count=1", nil)
	c.next("event")
	if n := s.report().Messages; n != 0 {
		t.Errorf("%d messages handled during the stall", n)
	}
	s.fault("stall?state=off", nil)
	c.next("ack")
}

func TestAStalledConnectionCanBeClosed(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(nil)
	s.fault("stall?state=on", nil)
	s.fault("drop", nil)
	if _, err := c.read(); err == nil {
		t.Error("no end")
	}
}

func TestAStalledServerKeepsItsDeadlines(t *testing.T) {
	s := startServe(t, "-faults", "-hello-timeout", "100ms")
	s.fault("stall?state=on", nil)
	ws, _, err := s.dial(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ws.CloseNow() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, _, err := ws.Read(ctx); closeCode(err) == -1 {
		t.Errorf("ended with %v, want a close frame of the server that waits for the first frame", err)
	}
}

func TestFaultHangNeverAnswersUpgrades(t *testing.T) {
	s := startServe(t, "-faults")
	s.fault("hang?state=on", nil)
	dialled := make(chan error, 1)
	go func() {
		ws, _, err := s.dial(t.Context(), nil)
		if err == nil {
			_ = ws.CloseNow()
		}
		dialled <- err
	}()
	s.reported("the upgrade arrived", func(r faults.Report) bool { return r.Upgrades == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := s.dial(ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a dial given up: %v", err)
	}
	select {
	case err := <-dialled:
		t.Fatalf("answered: %v", err)
	default:
	}
	s.fault("hang?state=off", nil)
	if err := <-dialled; !errors.Is(err, io.EOF) {
		t.Errorf("dial ended with %v, want EOF", err)
	}
	s.connect(nil)
}

func TestFaultRestartIsACrash(t *testing.T) {
	for _, verb := range []string{"restart?down=50ms", "restart", "forget"} {
		t.Run(verb, func(t *testing.T) {
			s := startServe(t, "-faults")
			c := s.connect(nil, "test/a", "chat")
			c.next("snapshot")
			c.say("1", map[string]any{"chat": "kept by the application"})
			ackAmong(c, 2)
			s.fault("publish?stream=test/a&count=3", nil)
			for range 3 {
				c.next("event")
			}
			s.fault(verb, nil)
			if _, err := c.read(); err == nil || closeCode(err) != -1 {
				t.Errorf("ended with %v, want no close frame", err)
			}
			eventually(t, "serving again", func() bool {
				res, err := http.Get(s.base + "/healthz") //nolint:noctx // ends with the server
				if err == nil {
					err = res.Body.Close()
				}
				return err == nil
			})
			again := s.connect(nil, "test/a", "chat")
			before, after := c.welcome.Subs["test/a"], again.welcome.Subs["test/a"]
			if after.Seq != 0 || after.Epoch == before.Epoch {
				t.Errorf("stream before %+v and after %+v, want a new epoch", before, after)
			}
			if snapshot := again.next("snapshot"); !strings.Contains(string(snapshot.State), "kept by the application") {
				t.Errorf("snapshot of the chat %s", snapshot.State)
			}
			again.say("2", map[string]any{"chat": "new"})
			if ack := ackAmong(again, 2); string(ack.Result) != "1" {
				t.Errorf("ack %+v, want number 1 of the new epoch", ack)
			}
		})
	}
}

func TestFaultReportCountsAndResets(t *testing.T) {
	s := startServe(t, "-faults")
	c := s.connect(nil)
	c.say("a", map[string]any{"echo": 1})
	c.next("ack")
	c.say("a", map[string]any{"echo": 1}) // a resend has no second effect
	c.next("ack")
	if err := c.ws.Close(4001, "leaving"); err != nil {
		t.Fatal(err)
	}
	s.reported("the connection gone", func(r faults.Report) bool { return r.Connections == 0 })
	node := strings.TrimPrefix(s.base, "http://")
	want := faults.Report{Node: node, Upgrades: 1, Accepted: 1, Messages: 1, Effects: map[string]int{"a": 1}, CloseCodes: map[uint16]int{4001: 1}}
	if got := s.report(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	s.fault("reset", nil)
	want = faults.Report{Node: node, Effects: map[string]int{}, CloseCodes: map[uint16]int{}}
	if got := s.report(); !reflect.DeepEqual(got, want) {
		t.Errorf("after reset %+v\nwant        %+v", got, want)
	}
}

func TestBadFaultsNameTheParameter(t *testing.T) {
	s := startServe(t, "-faults")
	for query, want := range map[string]string{
		"publish?data=1":                         "parameter stream: missing",
		"publish?stream=a+b&data=1":              "parameter stream",
		"publish?stream=a":                       "parameter data: missing",
		"publish?stream=a&data={":                "parameter data: not JSON",
		"publish?stream=a&data=1&count=1":        "parameter count",
		"publish?stream=a&count=0":               "parameter count",
		"publish?stream=a&count=1&from=x":        "parameter from",
		"publish?stream=a&stream=b&data=1":       "parameter stream: given 2 times",
		"publish-to?data=1":                      "parameter user",
		"drop?how=hard":                          "parameter how",
		"drop?now=1":                             "parameter now: unknown",
		"close":                                  "parameter code: missing",
		"close?code=1006":                        "parameter code",
		"close?code=2000":                        "parameter code",
		"close?code=4000&reason=" + longReason(): "parameter reason",
		"mute":                                   "parameter dir: missing",
		"mute?dir=up":                            "parameter dir",
		"mute?dir=in&which=some":                 "parameter which",
		"refuse":                                 "parameter status: missing",
		"refuse?status=101":                      "parameter status",
		"refuse?status=503&header=x":             "parameter header",
		"refuse?status=503&header=a:b%0ac":       "parameter header",
		"refuse?status=503&times=0":              "parameter times",
		"refuse?status=503&what=all":             "parameter what",
		"login":                                  "parameter mode",
		"hold-close?state=yes":                   "parameter state",
		"stall":                                  "parameter state",
		"hang":                                   "parameter state",
		"restart?down=5":                         "parameter down",
		"restart?down=2h":                        "parameter down",
		"forget?down=1s":                         "parameter down: unknown",
		"reset?all=1":                            "parameter all: unknown",
		"reset?a=%zz":                            "query",
	} {
		status, body := s.request(http.MethodPost, "/faults/"+query, nil)
		if status != http.StatusBadRequest || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s, want 400 and %q", query, status, body, want)
		}
	}
	if status, body := s.request(http.MethodGet, "/faults/drop", nil); status != http.StatusMethodNotAllowed {
		t.Errorf("GET drop: %d %s", status, body)
	}
	if status, body := s.request(http.MethodPost, "/faults/explode", nil); status != http.StatusNotFound || !strings.Contains(body, "explode") {
		t.Errorf("an unknown verb: %d %s", status, body)
	}
}

func longReason() string { return strings.Repeat("x", 124) }

func TestTheListNamesEveryVerb(t *testing.T) {
	s := startServe(t, "-faults")
	_, body := s.request(http.MethodGet, "/faults/", nil)
	var list []struct{ Verb, Does string }
	if err := json.Unmarshal([]byte(body), &list); err != nil {
		t.Fatal(err)
	}
	names := make([]string, len(list))
	for i, v := range list {
		names[i] = v.Verb
		if v.Does == "" {
			t.Errorf("%s without its line", v.Verb)
		}
	}
	want := "publish publish-to drop close mute refuse login hold-close stall hang restart forget reset report"
	if got := strings.Join(names, " "); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
