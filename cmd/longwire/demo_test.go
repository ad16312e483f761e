package main

import (
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestHostSendsItsSamplesAndThenOneEachSecond(t *testing.T) {
	s := startServe(t)
	c := s.connect(nil, "host")
	if sub := c.welcome.Subs["host"]; !sub.Resync || sub.Error != "" {
		t.Fatalf("answer to the subscription %+v, want a snapshot announced", sub)
	}
	snapshot := c.next("snapshot")
	var samples []hostSample
	if err := json.Unmarshal(snapshot.State, &samples); err != nil || uint64(len(samples)) != snapshot.Seq {
		t.Fatalf("snapshot of %d samples at %d: %v", len(samples), snapshot.Seq, err)
	}
	for want := snapshot.Seq + 1; want <= snapshot.Seq+2; want++ {
		event := c.next("event")
		var sample hostSample
		if err := json.Unmarshal(event.Data, &sample); err != nil || event.Seq != want {
			t.Fatalf("event %d: %v, want %d", event.Seq, err, want)
		}
		if sample.CPUs == 0 || sample.MemTotal == nil || *sample.MemTotal == 0 || time.Since(time.UnixMilli(sample.Time)) > time.Minute {
			t.Errorf("sample %s", event.Data)
		}
	}
}

func TestChatReachesAllWithTheNumberOfItsAck(t *testing.T) {
	s := startServe(t)
	alice, bob := s.connect(s.login("Älice & co"), "chat"), s.connect(nil, "chat")
	alice.next("snapshot")
	bob.next("snapshot")
	bob.say("1", map[string]any{"chat": " hello "})
	if ack := ackAmong(bob, 2); string(ack.Result) != "1" {
		t.Errorf("ack %+v, want the result 1", ack)
	}
	first := alice.next("event")
	alice.say("1", map[string]any{"chat": "hi"}) // ids are unique per user only
	var lines []chatLine
	for _, data := range []json.RawMessage{first.Data, eventAmong(alice, 2).Data} {
		var line chatLine
		if err := json.Unmarshal(data, &line); err != nil {
			t.Fatal(err)
		}
		line.Time = 0
		lines = append(lines, line)
	}
	want := []chatLine{{Text: "hello"}, {User: "Älice & co", Text: "hi"}}
	if !reflect.DeepEqual(lines, want) {
		t.Errorf("lines %+v, want %+v", lines, want)
	}
	late := s.connect(nil, "chat").next("snapshot")
	if n := strings.Count(string(late.State), `"text"`); n != 2 || late.Seq != 2 {
		t.Errorf("a snapshot of %d lines at %d, want 2 at 2", n, late.Seq)
	}
}

// ackAmong reads n frames, one of which must be an ack; its order among events is
// free.
func ackAmong(c *client, n int) got { return oneAmong(c, n, "ack") }

func eventAmong(c *client, n int) got { return oneAmong(c, n, "event") }

func oneAmong(c *client, n int, t string) (found got) {
	c.t.Helper()
	for range n {
		g, err := c.read()
		if err != nil {
			c.t.Fatal(err)
		}
		if g.T == t {
			found = g
		}
	}
	if found.T == "" {
		c.t.Fatalf("no %s in %d frames", t, n)
	}
	return found
}

func TestMessagesAreAnsweredOrRefusedWithAReason(t *testing.T) {
	s := startServe(t, "-node", "a")
	c := s.connect(nil)
	for _, tc := range []struct {
		name string
		body any
		want got
	}{
		{"node", map[string]any{"node": true}, got{T: "ack", Result: json.RawMessage(`"a"`)}},
		{"echo", map[string]any{"echo": []int{1}}, got{T: "ack", Result: json.RawMessage("[1]")}},
		{"echo of null", map[string]any{"echo": nil}, got{T: "ack", Result: json.RawMessage("null")}},
		{"empty line", map[string]any{"chat": " "}, got{T: "nack", Code: "empty", Reason: "a line of chat needs a text"}},
		{"long line", map[string]any{"chat": strings.Repeat("ä", 501)}, got{T: "nack", Code: "too-long", Reason: "501 characters, at most 500"}},
		{"refusal", map[string]any{"refuse": map[string]any{"code": "c", "reason": "r"}}, got{T: "nack", Code: "c", Reason: "r"}},
		{"nothing known", map[string]any{"what": 1}, got{T: "nack", Code: "bad-request", Reason: "the body holds none of chat, echo, node, refuse"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c.say(tc.name, tc.body)
			answer, err := c.read()
			tc.want.ID = tc.name
			if err != nil || !reflect.DeepEqual(answer, tc.want) {
				t.Errorf("got  %+v, %v\nwant %+v", answer, err, tc.want)
			}
		})
	}
}

func TestOnlyTheStreamsOfTheDemoAreOpen(t *testing.T) {
	s := startServe(t)
	c := s.connect(nil, "host", "chat", "test/a", "secret/a", "other")
	got := map[string]string{}
	for name, sub := range c.welcome.Subs {
		got[name] = sub.Error
	}
	want := map[string]string{"host": "", "chat": "", "test/a": "", "secret/a": "forbidden", "other": "forbidden"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestTheCookieNamesTheUser(t *testing.T) {
	s := startServe(t)
	if user := s.connect(s.login("bob")).welcome.User; user == "" || user == s.connect(s.login("eve")).welcome.User {
		t.Errorf("user %q of the welcome, want one of its own for each user", user)
	}
	for name, want := range map[string]int{"": 400, " ": 400, "a\nb": 400, strings.Repeat("ü", 64): 200, strings.Repeat("ü", 65): 400, "\xff": 400} {
		if got, _ := s.postLogin(name); got != want {
			t.Errorf("login of %q: status %d, want %d", name, got, want)
		}
	}
	header := http.Header{"Cookie": {userCookie + "=%0a"}}
	if status, body := s.request(http.MethodGet, "/login", header); status != http.StatusUnauthorized {
		t.Errorf("a cookie made up: %d %s", status, body)
	}
	if status, body := s.request(http.MethodDelete, "/login", s.login("bob")); status != http.StatusOK || body != "{\"user\":\"\"}\n" {
		t.Errorf("logout: %d %s", status, body)
	}
}

func TestALoginExpires(t *testing.T) {
	t.Parallel() // it takes its time
	s := startServe(t, "-login-life", "2s")
	header := s.login("bob")
	c := s.connect(header)
	if _, err := c.read(); closeCode(err) != 4401 {
		t.Errorf("connection ended with %v, want 4401", err)
	}
	if status, body := s.request(http.MethodGet, "/login", header); status != http.StatusUnauthorized {
		t.Errorf("the expired login: %d %s", status, body)
	}
}

func TestWithoutTheFlagThereAreNoFaults(t *testing.T) {
	s := startServe(t)
	for method, path := range map[string]string{http.MethodGet: "/faults/", http.MethodPost: "/faults/reset"} {
		if status, _ := s.request(method, path, nil); status != http.StatusNotFound {
			t.Errorf("%s %s: %d, want 404", method, path, status)
		}
	}
}
