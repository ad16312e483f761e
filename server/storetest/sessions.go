package storetest

import (
	"errors"
	"reflect"
	"testing"

	"github.com/longwire/longwire/server"
)

func testSessions(t *testing.T, h harness) {
	h.cases(t, map[string]func(*testing.T, harness){
		"a new one":                              newSession,
		"the newest connection wins":             newestWins,
		"an older fencing number is refused":     notNewest,
		"fenced once only":                       fencedOnce,
		"it is the user's alone":                 foreignSession,
		"an anonymous one":                       anonymousSession,
		"it outlives its connection":             sessionOutlives,
		"a superseded connection detaches late":  lateDetach,
		"the user has too many":                  tooManySessions,
		"those with a connection are not pushed": connectedStay,
	})
}

// attach makes a connection that is never told of its end.
func attach(t *testing.T, s server.Store, session, user string, gen uint64) server.Session {
	t.Helper()
	return attachFenced(t, s, session, user, gen, func(uint64) {})
}

func attachFenced(t *testing.T, s server.Store, session, user string, gen uint64, fenced func(uint64)) server.Session {
	t.Helper()
	sess, err := s.Attach(t.Context(), server.Attachment{Session: session, User: user, Gen: gen, Fenced: fenced})
	if err != nil {
		t.Fatalf("Attach(%q, %q, %d): %v", session, user, gen, err)
	}
	return sess
}

func knows(t *testing.T, s server.Store, session, user string) bool {
	t.Helper()
	ok, err := s.Knows(t.Context(), session, user)
	if err != nil {
		t.Fatalf("Knows(%q, %q): %v", session, user, err)
	}
	return ok
}

func newSession(t *testing.T, h harness) {
	s := h.store(t)
	a, b := attach(t, s, "", "u", 0), attach(t, s, "no such session", "u", 7)
	defer a.Detach()
	defer b.Detach()
	if len(a.ID()) < 26 || a.ID() == b.ID() {
		t.Errorf("ids %q and %q: want two of 128 random bits", a.ID(), b.ID())
	}
	if a.Gen() == 0 || b.Gen() != 7 {
		t.Errorf("fencing numbers %d and %d, want one above 0, and 7", a.Gen(), b.Gen())
	}
	if log := a.Own().Log(); log.Epoch() == "" || log.Head() != 0 || log.Epoch() == b.Own().Log().Epoch() {
		t.Errorf("own stream: epoch %q, head %d", log.Epoch(), log.Head())
	}
	if !knows(t, s, a.ID(), "u") || knows(t, s, a.ID(), "v") || knows(t, s, a.ID(), "") || knows(t, s, "", "u") {
		t.Error("Knows is wrong about whose it is")
	}
	if n := s.Stats().Sessions; n != 2 {
		t.Errorf("Stats: %d sessions, want 2", n)
	}
}

func newestWins(t *testing.T, h harness) {
	s := h.store(t)
	fenced := make(chan uint64, 2)
	a := attachFenced(t, s, "", "u", 5, func(gen uint64) { fenced <- gen })
	defer a.Detach()
	if _, err := s.PublishToSession(t.Context(), a.ID(), []byte("1")); err != nil {
		t.Fatal(err)
	}
	b := attach(t, s, a.ID(), "u", 9)
	defer b.Detach()
	if b.ID() != a.ID() || b.Gen() != 9 {
		t.Errorf("session %q, %d; want %q, 9", b.ID(), b.Gen(), a.ID())
	}
	if gen := <-fenced; gen != 9 {
		t.Errorf("fenced with %d, want 9", gen)
	}
	if got := Next(t, b.Own(), 0, 1); got[0] != "1" || b.Own().Log().Epoch() != a.Own().Log().Epoch() {
		t.Errorf("own stream has %q, and another epoch: %v", got, b.Own().Log().Epoch() != a.Own().Log().Epoch())
	}
	c := attach(t, s, a.ID(), "u", 0)
	defer c.Detach()
	if c.ID() != a.ID() || c.Gen() != 10 {
		t.Errorf("the next one: session %q, %d; want %q, 10", c.ID(), c.Gen(), a.ID())
	}
}

func notNewest(t *testing.T, h harness) {
	s := h.store(t)
	a := attachFenced(t, s, "", "u", 5, func(gen uint64) { t.Errorf("fenced with %d", gen) })
	defer a.Detach()
	for _, gen := range []uint64{4, 5} {
		sess, err := s.Attach(t.Context(), server.Attachment{Session: a.ID(), User: "u", Gen: gen, Fenced: func(uint64) {}})
		older, ok := errors.AsType[*server.NotNewestError](err)
		if !ok || older.Gen != 5 {
			t.Errorf("Attach with %d: %v, %v; want a NotNewestError with 5", gen, sess, err)
		}
	}
	if f, err := a.Admit(t.Context(), "1", sum(1)); err != nil || f.Kind != server.Admitted {
		t.Errorf("Admit: %+v, %v; want it admitted", f, err)
	}
	a.Settle("1", server.Answer{})
}

func fencedOnce(t *testing.T, h harness) {
	s := h.store(t)
	fenced := make(chan uint64, 10)
	a := attachFenced(t, s, "", "u", 1, func(gen uint64) { fenced <- gen })
	b := attachFenced(t, s, a.ID(), "u", 2, func(gen uint64) { fenced <- gen })
	c := attachFenced(t, s, a.ID(), "u", 3, func(gen uint64) { t.Errorf("the newest is fenced with %d", gen) })
	for range 2 {
		if gen := <-fenced; gen != 2 && gen != 3 {
			t.Errorf("fenced with %d", gen)
		}
	}
	for _, sess := range []server.Session{a, b, c} {
		sync(t, sess.Own())
		sess.Detach()
	}
	if len(fenced) > 0 {
		t.Errorf("fenced again, with %d", <-fenced)
	}
}

func foreignSession(t *testing.T, h harness) {
	s := h.store(t)
	a := attachFenced(t, s, "", "u", 1, func(gen uint64) { t.Errorf("fenced with %d", gen) })
	defer a.Detach()
	for _, user := range []string{"v", ""} {
		b := attach(t, s, a.ID(), user, 5)
		defer b.Detach()
		if b.ID() == a.ID() {
			t.Errorf("user %q has taken over u's session", user)
		}
	}
}

func anonymousSession(t *testing.T, h harness) {
	s := h.store(t)
	a := attach(t, s, "", "", 1)
	a.Detach()
	b := attach(t, s, a.ID(), "", 2)
	defer b.Detach()
	c := attach(t, s, a.ID(), "u", 3)
	defer c.Detach()
	if b.ID() != a.ID() || c.ID() == a.ID() {
		t.Errorf("ids %q, then %q, and %q of a user", a.ID(), b.ID(), c.ID())
	}
	if !knows(t, s, a.ID(), "") || knows(t, s, a.ID(), "u") {
		t.Error("Knows is wrong about whose it is")
	}
}

func sessionOutlives(t *testing.T, h harness) {
	s := h.store(t)
	a := attach(t, s, "", "u", 5)
	epoch := a.Own().Log().Epoch()
	a.Detach()
	for _, data := range numbers(1, 3) {
		if _, err := s.PublishToSession(t.Context(), a.ID(), []byte(data)); err != nil {
			t.Fatal(err)
		}
	}
	b := attach(t, s, a.ID(), "u", 0)
	defer b.Detach()
	if b.ID() != a.ID() || b.Gen() != 6 || b.Own().Log().Epoch() != epoch {
		t.Errorf("session %q, %d, %q; want %q, 6, %q", b.ID(), b.Gen(), b.Own().Log().Epoch(), a.ID(), epoch)
	}
	if got := Next(t, b.Own(), 0, 3); !reflect.DeepEqual(got, numbers(1, 3)) {
		t.Errorf("got %q", got)
	}
}

func lateDetach(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.UserSessions = 1 })
	a := attach(t, s, "", "u", 1)
	b := attach(t, s, a.ID(), "u", 2)
	defer b.Detach()
	a.Detach()
	c := attach(t, s, "", "u", 0) // may push out a session without a connection
	defer c.Detach()
	if !knows(t, s, b.ID(), "u") {
		t.Error("the session has gone with a connection that was superseded")
	}
}

func tooManySessions(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.UserSessions = 2 })
	first, second := attach(t, s, "", "u", 0), attach(t, s, "", "u", 0)
	other := attach(t, s, "", "v", 0)
	defer other.Detach()
	second.Detach()
	idle(t, s, second)
	first.Detach()
	idle(t, s, first)
	third := attach(t, s, "", "u", 0)
	defer third.Detach()
	if knows(t, s, second.ID(), "u") || !knows(t, s, first.ID(), "u") || !knows(t, s, other.ID(), "v") {
		t.Error("want the one that is gone which was without a connection for longest, and no other")
	}
	if _, err := s.PublishToSession(t.Context(), second.ID(), []byte("1")); !errors.Is(err, server.ErrNoSession) {
		t.Errorf("PublishToSession to the one that is gone: %v", err)
	}
}

// idle returns when a session that was detached is known to be so: Detach does not
// wait. What is published meanwhile keeps two of them apart in time.
func idle(t *testing.T, s server.Store, sess server.Session) {
	t.Helper()
	Eventually(t, "time has passed", func() bool {
		return publish(t, s, "time/"+sess.ID(), "1") > 50
	})
}

func connectedStay(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.UserSessions = 1 })
	a, b := attach(t, s, "", "u", 0), attach(t, s, "", "u", 0)
	defer a.Detach()
	defer b.Detach()
	if !knows(t, s, a.ID(), "u") || !knows(t, s, b.ID(), "u") {
		t.Error("a session with a connection is gone")
	}
}

func testOwnStreams(t *testing.T, h harness) {
	h.cases(t, map[string]func(*testing.T, harness){
		"of all sessions of a user": publishToUser,
		"of one session":            publishToSession,
	})
}

func publishToUser(t *testing.T, h harness) {
	s := h.store(t)
	if n, err := s.PublishTo(t.Context(), "u", []byte("0")); n != 0 || err != nil {
		t.Errorf("PublishTo a user without sessions = %d, %v; want 0", n, err)
	}
	a, b, other := attach(t, s, "", "u", 0), attach(t, s, "", "u", 0), attach(t, s, "", "v", 0)
	defer a.Detach()
	defer other.Detach()
	for _, data := range numbers(1, 2) {
		if n, err := s.PublishTo(t.Context(), "u", []byte(data)); n != 2 || err != nil {
			t.Errorf("PublishTo = %d, %v; want 2", n, err)
		}
	}
	for _, sess := range []server.Session{a, b} {
		if got := Next(t, sess.Own(), 0, 2); !reflect.DeepEqual(got, numbers(1, 2)) {
			t.Errorf("got %q", got)
		}
	}
	sync(t, other.Own())
	if head := other.Own().Log().Head(); head != 0 {
		t.Errorf("another user's session has %d events", head)
	}
	b.Detach()
	if n, err := s.PublishTo(t.Context(), "u", []byte("3")); n != 2 || err != nil {
		t.Errorf("PublishTo with one session detached = %d, %v; want 2", n, err)
	}
}

func publishToSession(t *testing.T, h harness) {
	s := h.store(t)
	a, b := attach(t, s, "", "u", 0), attach(t, s, "", "", 0)
	defer a.Detach()
	defer b.Detach()
	for i, sess := range []server.Session{a, b, a, b} {
		seq, err := s.PublishToSession(t.Context(), sess.ID(), []byte("1"))
		if want := uint64(i/2 + 1); seq != want || err != nil {
			t.Errorf("PublishToSession = %d, %v; want %d", seq, err, want)
		}
	}
	Next(t, a.Own(), 0, 2)
	Next(t, b.Own(), 0, 2)
	for _, id := range []string{"", "A", "no such session", a.ID()[1:], a.ID() + "A"} {
		_, err := s.PublishToSession(t.Context(), id, []byte("1"))
		wantErr(t, "PublishToSession", err, server.ErrNoSession)
	}
}
