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

// written returns the lines of messages that were written.
func written(lines []string) []string {
	return slices.DeleteFunc(slices.Clone(lines), func(l string) bool { return !strings.Contains(l, `"t":"msg"`) })
}

// An id that is drawn anew for each try would defeat the server's memory of ids.
func TestAMessageKeepsItsIDOnEveryConnection(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(send("m"))
	s.do(reconnect.Start{})
	restarted := strings.NewReplacer(`"s1"`, `"s2"`, `"e0"`, `"e9"`).Replace(welcome) // the memory of ids is the user's
	for n, hello := range []string{welcome, welcome, restarted, welcome} {
		conn := s.open()
		if got, want := written(s.frame(conn, hello)), msgLine(conn, "m"); !slices.Equal(got, []string{want}) {
			t.Fatalf("connection %d: got %q, want %q", n, got, want)
		}
		s.after(6 * time.Second)
		s.do(reconnect.Closed{Conn: conn, Code: 1006})
	}
}

// What was reported as failed must not go out later: its sender may have done it
// again by then.
func TestWhatWasReportedAsNotSentIsNotSentAfterARestart(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Start{})
	s.do(reconnect.Send{ID: "late", Body: wire.Raw("1"), Expiry: time.Second})
	s.do(send("withdrawn"))
	s.do(send("closed"))
	s.do(reconnect.Cancel{ID: "withdrawn"})
	s.after(time.Second)
	s.want(reconnect.Stop{}, "settle closed not-sent  ended", "ended closed")
	s.do(reconnect.Start{})
	if got := written(s.frame(s.open(), welcome)); len(got) != 0 {
		t.Errorf("written after all: %q", got)
	}
	if got := written(s.after(10 * time.Minute)); len(got) != 0 {
		t.Errorf("written after all: %q", got)
	}
}

// 4 to 6 are in flight when the session is lost for good, 7 to 9 are sent
// meanwhile.
func TestWhatFailedGoesOutBeforeWhatIsNewer(t *testing.T) {
	s, conn := settled(t)
	for n := 1; n <= 6; n++ {
		s.do(send(fmt.Sprint(n)))
	}
	for n := 1; n <= 3; n++ {
		s.frame(conn, fmt.Sprintf(`{"t":"ack","id":"%d"}`, n))
	}
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.do(send("7"))
	conn = s.open()
	s.do(send("8"))
	var want []string
	for n := 4; n <= 9; n++ {
		want = append(want, msgLine(conn, fmt.Sprint(n)))
	}
	got := written(s.frame(conn, strings.Replace(welcome, `"s1"`, `"s2"`, 1)))
	got = append(got, written(s.do(send("9")))...)
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

// Refused "for now" many times over, a message is still either delivered or given
// back.
func TestAMessageRefusedForNowIsNeverForgotten(t *testing.T) {
	s := newScript(t, reconnect.Policy{Expiry: time.Minute})
	conn := s.live(welcome)
	s.want(send("m"), msgLine(1, "m"))
	for range 25 {
		s.frame(conn, `{"t":"nack","id":"m","code":"busy","retry":1000}`)
		if got := written(s.after(time.Second)); !slices.Equal(got, []string{msgLine(1, "m")}) {
			t.Fatalf("got %q, want it sent again", got)
		}
	}
	s.wantFrame(conn, `{"t":"ack","id":"m"}`, "settle m accepted")

	s.want(send("n"), msgLine(1, "n"))
	settled := 0
	for range 100 {
		s.frame(conn, `{"t":"nack","id":"n","code":"busy","retry":1000}`)
		for _, l := range s.after(time.Second) {
			if strings.HasPrefix(l, "settle n") {
				settled++
			}
		}
	}
	if settled != 1 {
		t.Errorf("settled %d times, want once", settled)
	}
}

// A page calls as soon as it is seen again, before the link is back.
func TestSendsOfASleepingPageAreSettledWhenItIsAwake(t *testing.T) {
	for _, ok := range []bool{true, false} {
		s, _ := settled(t)
		s.do(reconnect.Sleep{})
		var want, lost []string
		for n := range 20 {
			id := fmt.Sprint(n)
			s.want(send(id))
			want = append(want, msgLine(2, id))
			lost = append(lost, "settle "+id+" not-sent  ended")
		}
		s.want(reconnect.Wake{}, "fetch 2", "connecting")
		conn := s.open()
		if !ok {
			s.want(reconnect.Closed{Conn: conn, Code: 4403}, append(lost, "ended forbidden")...)
			s.wantAfter(time.Hour)
			continue
		}
		if got := written(s.frame(conn, welcome)); !slices.Equal(got, want) {
			t.Errorf("got %q\nwant %q", got, want)
		}
	}
}

// Thousands of messages pile up offline: bounded, each refusal said, and what goes
// out keeps to the window.
func TestABacklogDoesNotFloodTheServer(t *testing.T) {
	s := newScript(t, reconnect.Policy{Expiry: time.Minute})
	refused := 0
	for n := range 5000 {
		for _, l := range s.do(send(fmt.Sprint(n))) {
			if l == fmt.Sprintf("settle %d not-sent  outbox full", n) {
				refused++
			}
		}
	}
	if refused != 4000 || len(s.m.Pending()) != 1000 {
		t.Errorf("%d refused, %d kept; want 4000 and 1000", refused, len(s.m.Pending()))
	}
	s.do(reconnect.Start{})
	conn := s.open()
	out := written(s.frame(conn, welcome))
	if len(out) != wire.DefaultWindow || out[0] != msgLine(conn, "0") {
		t.Errorf("%d messages at once, the first %s; want the window of %d", len(out), out[0], wire.DefaultWindow)
	}
	if got := written(s.frame(conn, `{"t":"ack","id":"0"}`)); !slices.Equal(got, []string{msgLine(conn, "32")}) {
		t.Errorf("after one acknowledgement %q, want the next message", got)
	}
	var expired int
	for _, l := range s.after(time.Minute) {
		if strings.HasSuffix(l, "not-sent  expired") {
			expired++
		}
	}
	if expired != 1000-33 || len(s.m.Pending()) != 0 {
		t.Errorf("%d expired unsent, %d pending; want 967 and none", expired, len(s.m.Pending()))
	}
}
