package reconnect_test

import (
	"slices"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// A relay hands on everything, in order and as it came: whoever holds a position
// drops what it has, and says so when something is missing.
func TestARelayHandsOnEverything(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.want(reconnect.Positions{Streams: map[string]wire.Want{"a": {Has: true, After: 5, Epoch: "e"}, "": {}}}, "idle")
	s.do(reconnect.Start{})
	conn := s.open()
	s.wantFrame(conn, welcomeWith(`{"a":{"seq":7,"epoch":"e","first":0,"resync":false}}`), "deliver welcome", "live")
	s.wantFrame(conn, `{"t":"events","from":6,"stream":"a","data":[6,7]}`, "deliver a 6=6 7=7")
	s.wantFrame(conn, `{"t":"event","seq":6,"stream":"a","data":6}`, "deliver a 6=6")
	s.wantFrame(conn, `{"t":"event","seq":20,"stream":"a","data":20}`, "deliver a 20=20")
	s.wantFrame(conn, `{"t":"event","seq":1,"stream":"b","data":1}`) // nobody wants it

	// Each request is passed on, whatever the relay knows.
	s.want(reconnect.Subscribe{Stream: "a", From: wire.Want{Has: true, After: 7, Epoch: "e"}},
		`write 1 {"t":"sub","stream":"a","after":7,"epoch":"e"}`, "live")
	s.want(reconnect.Subscribe{Stream: "a"}, `write 1 {"t":"sub","stream":"a"}`, "live")
	// Each answer is for whoever asked with that position.
	first := `{"t":"subbed","stream":"a","seq":20,"epoch":"e","first":0,"resync":false}`
	s.wantFrame(conn, first, "deliver "+first+" to 7 e", "live")
	last := `{"t":"subbed","stream":"a","seq":20,"epoch":"e","first":0,"resync":true}`
	s.wantFrame(conn, last, "deliver "+last, "live")
	snapshot := `{"t":"snapshot","seq":20,"epoch":"e","stream":"a","state":1}`
	s.wantFrame(conn, snapshot, "deliver "+snapshot, "live")
	s.wantFrame(conn, snapshot, "deliver "+snapshot, "live")

	// Between connections the positions are said anew; on one they are asked for.
	s.want(reconnect.Positions{})
	s.do(reconnect.Closed{Conn: conn, Code: 1006})
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"c": {}}})
	s.open()
	want := `{"t":"resume","v":1,"session":"s1","gen":1004000,"user":"ada","subs":{"c":{}},"batch":true`
	if write := string(s.last[0].(reconnect.Write).Data); write[:len(want)] != want {
		t.Errorf("got %s\nwant %s…", write, want)
	}
}

// A driver that keeps the payloads of events gets back what it knows them by.
func TestARelayHandsOnEventsWhosePayloadsStayWithTheDriver(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": {Has: true, After: 5, Epoch: "e"}}})
	conn := s.live(welcomeWith(`{"a":{"seq":7,"epoch":"e","first":0,"resync":false}}`))
	before := s.m.Totals()
	kept := func(conn uint64, stream string) []reconnect.Action {
		f := wire.Events{Stream: stream, From: 6, Data: make([]wire.Raw, 3)}
		return slices.Clone(s.m.Handle(s.now, reconnect.Received{Conn: conn, Data: []byte("17"), Frame: f, Size: 450}))
	}
	got := kept(conn, "a")
	if len(got) != 1 || string(got[0].(reconnect.Deliver).Text) != "17" {
		t.Errorf("got %+v, want what stands for the frame delivered", got)
	}
	if pos := s.m.Status().Streams["a"].Position; pos != (wire.Want{Has: true, After: 8, Epoch: "e"}) {
		t.Errorf("the position is %+v", pos)
	}
	if got := append(kept(conn, "b"), kept(conn+1, "a")...); len(got) != 0 {
		t.Errorf("of a stream nobody wants, and on a socket that is none: %+v", got)
	}
	after := s.m.Totals()
	if n, bytes := after.Delivered-before.Delivered, after.BytesIn-before.BytesIn; n != 3 || bytes != 900 {
		t.Errorf("counted %d events and %d bytes, want 3 and 900", n, bytes)
	}
}

// Tabs ask for what a hole has swallowed. A server that sends nothing but holes
// must not be asked in a hot loop, and tabs that ask together must all be heard.
func TestARelayPassesRepeatedRequestsOnSlowly(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	five := wire.Want{Has: true, After: 5, Epoch: "e"}
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": five}})
	conn := s.live(welcomeWith(`{"a":{"seq":9,"epoch":"e","first":0,"resync":false}}`))
	sub := `write 1 {"t":"sub","stream":"a","after":5,"epoch":"e"}`
	for range 3 {
		s.want(reconnect.Subscribe{Stream: "a", From: five}, sub, "live")
	}
	s.want(reconnect.Subscribe{Stream: "a", From: five}, "live")
	s.wantFrame(conn, `{"t":"event","seq":9,"stream":"a","data":9}`, "deliver a 9=9")
	s.wantAfter(999 * time.Millisecond)
	s.wantAfter(time.Millisecond, sub)
	s.wantAfter(5 * time.Millisecond)
	s.want(reconnect.Subscribe{Stream: "a", From: five}, "live")
	s.wantAfter(time.Second, sub)

	// Another position is another request, and makes none forgotten.
	six := wire.Want{Has: true, After: 6, Epoch: "e"}
	s.want(reconnect.Subscribe{Stream: "a", From: five}, "live")
	s.want(reconnect.Subscribe{Stream: "a", From: six}, `write 1 {"t":"sub","stream":"a","after":6,"epoch":"e"}`, "live")
	s.wantAfter(time.Second, sub)

	// Who asks now and then is not held up.
	for range 5 {
		s.after(1001 * time.Millisecond)
		s.want(reconnect.Subscribe{Stream: "a", From: six}, `write 1 {"t":"sub","stream":"a","after":6,"epoch":"e"}`, "live")
	}
}

// A server of the base frames names no first position: a tab that is told to resync is
// not to believe that its position is covered.
func TestARelayCoversNobodyWhomABaseServerTellsToResync(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.do(reconnect.Start{})
	conn := s.open()
	s.frame(conn, `{"t":"welcome","session":"base","seq":9,"resync":true}`)
	i := slices.IndexFunc(s.last, func(a reconnect.Action) bool { _, ok := a.(reconnect.Deliver); return ok })
	if i < 0 {
		t.Fatalf("got %+v, want the welcome delivered", s.last)
	}
	own := s.last[i].(reconnect.Deliver).Frame.(wire.Welcome).Own //nolint:forcetypeassert // a test
	if !own.Resync || own.Seq != 9 || own.First <= own.Seq {
		t.Errorf("got %+v, want an answer that covers no position", own)
	}
}

// Ten tabs that are opened one after the other have no position yet, and none waits.
func TestARelayHoldsUpNoNewTab(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": {}}})
	s.live(welcomeWith(`{"a":{"seq":9,"epoch":"e","first":0,"resync":false}}`))
	for range 10 {
		s.want(reconnect.Subscribe{Stream: "a"}, `write 1 {"t":"sub","stream":"a"}`, "live")
	}
}

// While one tab's question is on its way another one may be told of a gap.
func TestARelayHandsOnAGapWhileItAsks(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": {}}})
	conn := s.live(welcomeWith(`{"a":{"seq":9,"epoch":"e","first":0,"resync":true}}`))
	s.want(reconnect.Subscribe{Stream: "a"}, `write 1 {"t":"sub","stream":"a"}`, "live")
	reset := `{"t":"reset","stream":"a","seq":9,"epoch":"e","first":6,"snapshot":false,"reason":"gap"}`
	s.wantFrame(conn, reset, "deliver "+reset, "live")
}

// A stream that is busy is asked for again from every position that was refused.
func TestARelayRemembersWhatWasBusy(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": {Has: true, After: 5, Epoch: "e"}}})
	conn := s.live(welcomeWith(`{"a":{"error":"busy","retry":300}}`))
	s.want(reconnect.Subscribe{Stream: "a"}, `write 1 {"t":"sub","stream":"a"}`, "live")
	busy := `{"t":"subbed","stream":"a","error":"busy","retry":300}`
	s.wantFrame(conn, busy, "deliver "+busy, "live")
	s.wantAfter(300*time.Millisecond, `write 1 {"t":"sub","stream":"a","after":5,"epoch":"e"}`, `write 1 {"t":"sub","stream":"a"}`)
	s.wantAfter(time.Second)
}

// A stream that is given up and wanted again is not answered by what was asked
// before: its epoch may have changed since.
func TestAnswersForASubscriptionThatIsOverAreDropped(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	five := wire.Want{Has: true, After: 5, Epoch: "e"}
	s.do(reconnect.Positions{Streams: map[string]wire.Want{"a": {}}})
	conn := s.live(welcomeWith(`{"a":{"seq":9,"epoch":"e","first":0,"resync":false}}`))
	s.do(reconnect.Subscribe{Stream: "a", From: five})
	s.want(reconnect.Unsubscribe{Stream: "a"}, `write 1 {"t":"unsub","stream":"a"}`, "live")
	s.do(reconnect.Subscribe{Stream: "a", From: five})
	s.wantFrame(conn, `{"t":"subbed","stream":"a","seq":9,"epoch":"e","first":0,"resync":false}`)
	s.wantFrame(conn, `{"t":"subbed","stream":"a","seq":1,"epoch":"f","first":0,"resync":true}`,
		`deliver {"t":"subbed","stream":"a","seq":1,"epoch":"f","first":0,"resync":true} to 5 e`, "live")
}

// A relay that takes over goes on where the one before it stopped.
func TestARelayInheritsTheWaitOfTheOneBefore(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	s.want(reconnect.Outrank{Above: 5_000_000})
	s.want(reconnect.Inherit{Session: "s9", User: "ada", Attempt: 3, NotBefore: s.now.Add(7 * time.Second)}, "idle")
	s.want(reconnect.Start{}, "waiting 7.5s")
	if st := s.m.Status(); st.Attempt != 3 || st.Floor != s.now.Add(7*time.Second) {
		t.Errorf("got %+v", st)
	}
	// Nothing undercuts the floor but an explicit wish.
	s.want(reconnect.Signal{Kind: reconnect.Visible})
	s.wantAfter(7500*time.Millisecond, "waiting 4.5s", "fetch 1", "connecting") // no longer calm
	if gen := s.m.Gen(); gen != 5_000_002 {
		t.Errorf("Gen() = %d, want 5000002", gen)
	}
	s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
	s.want(reconnect.Opened{Conn: 1}, `write 1 {"t":"resume","v":1,"session":"s9","gen":5000002,"user":"ada","batch":true,"away":7500}`, "connecting")
}

func TestWhatARelayInherits(t *testing.T) {
	later := func(s *script, d time.Duration) time.Time { return s.now.Add(d) }
	t.Run("attempts without a floor wait as after a failure", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		s.want(reconnect.Inherit{Attempt: 4})
		s.want(reconnect.Start{}, "waiting 2s")
	})
	t.Run("one that was live is no reason to wait", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		s.want(reconnect.Inherit{Attempt: 4, Live: true})
		s.want(reconnect.Start{}, "fetch 1", "connecting")
	})
	t.Run("a floor that is heard of later ends the attempt", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		s.do(reconnect.Start{})
		s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
		s.want(reconnect.Inherit{NotBefore: later(s, time.Second)}, "abandon 1 4001 leaving", "waiting 1.5s")
		s.want(reconnect.Inherit{NotBefore: later(s, 5*time.Second)}, "waiting 5.5s")
		s.want(reconnect.Inherit{NotBefore: later(s, 3*time.Second)})
	})
	t.Run("a floor that is past is none", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		s.want(reconnect.Inherit{NotBefore: later(s, -time.Second), Live: true})
		s.want(reconnect.Start{}, "fetch 1", "connecting")
	})
	t.Run("not even the longest floor is for ever", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		s.want(reconnect.Inherit{NotBefore: later(s, 1000*time.Hour)})
		s.want(reconnect.Start{}, "waiting 20m0.5s")
	})
	t.Run("an explicit wish undercuts it", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		s.want(reconnect.Inherit{Attempt: 4, NotBefore: later(s, time.Minute)})
		s.want(reconnect.DialNow{}, "fetch 1", "connecting")
	})
	t.Run("after a session nothing is inherited", func(t *testing.T) {
		s := newScript(t, reconnect.Policy{Relay: true})
		conn := s.live(welcome)
		s.want(reconnect.Inherit{Session: "other", Attempt: 9, NotBefore: later(s, time.Minute)})
		s.want(reconnect.Closed{Conn: conn, Code: 1006}, "waiting 4s")
	})
}

// A number is chosen when an attempt begins, so that tabs can be told.
func TestTheNumberOfAnAttemptIsKnownFromItsBeginning(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	s.do(reconnect.Start{})
	if gen := s.m.Gen(); gen != 1_000_000 {
		t.Errorf("Gen() = %d, want the time in ms", gen)
	}
	s.do(reconnect.Outrank{Above: 1_000_007})
	s.do(reconnect.URLReady{Attempt: 1, URL: "ws://x"})
	s.want(reconnect.Opened{Conn: 1}, `write 1 {"t":"resume","v":1,"gen":1000008,"batch":true}`, "connecting")
}

// Somebody who uses the page revives an ended client, once a minute; it changes
// nothing otherwise.
func TestAnEndedClientIsRevivedByWhoWantsIt(t *testing.T) {
	s := newScript(t, reconnect.Policy{})
	wanted := reconnect.Signal{Kind: reconnect.Wanted}
	conn := s.live(welcome)
	s.want(wanted)
	s.want(reconnect.Closed{Conn: conn, Code: 1000}, "ended finished")
	s.want(wanted, "fetch 2", "connecting")
	s.do(reconnect.URLReady{Attempt: 2, URL: "ws://x"})
	s.want(reconnect.Closed{Conn: 2, Code: 1000}, "ended finished")
	s.want(wanted)
}

// A message that the relay before may have written is written again only while the
// server remembers it, and else unknown: also when the memory is lost before.
func TestAMessageOfTheRelayBefore(t *testing.T) {
	s := newScript(t, reconnect.Policy{Relay: true})
	of := func(id, dedupe string, age time.Duration) reconnect.Send {
		return reconnect.Send{ID: id, Body: wire.Raw("1"), Dedupe: dedupe, Age: age}
	}
	s.do(of("other", "d0", 0))
	s.do(of("old", "d1", 10*time.Minute))
	s.do(of("same", "d1", 9*time.Minute))
	s.do(reconnect.Start{})
	conn := s.open()
	s.wantFrame(conn, welcome, "deliver welcome", "live", "settle other unknown  unknown", "settle old unknown  unknown",
		`write 1 {"t":"msg","id":"same","body":1}`)
	s.want(of("late", "d0", 0), "settle late unknown  unknown")
	s.want(of("again", "d1", time.Second), `write 1 {"t":"msg","id":"again","body":1}`)
	s.want(reconnect.Cancel{ID: "again"}, "settle again unknown  cancelled")
}
