package storetest

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/server"
)

func testMessages(t *testing.T, h harness) {
	h.cases(t, map[string]func(*testing.T, harness){
		"run once, then known":                messageOnce,
		"its id with another body":            messageConflict,
		"a refusal for now is forgotten":      messageRetry,
		"known for the window":                messageWindow,
		"no room for another":                 memoryFull,
		"no room for another answer":          memoryFullOfBytes,
		"a copy waits for the answer":         copyWaits,
		"a copy does not wait for ever":       copyGivesUp,
		"of a connection that was superseded": messageSuperseded,
		"whose memory it is":                  messageScopes,
	})
}

func sum(n byte) [16]byte { return [16]byte{0, n, 0xff} }

func admit(t *testing.T, c server.Session, id string, n byte) server.Finding {
	t.Helper()
	f, err := c.Admit(t.Context(), id, sum(n))
	if err != nil {
		t.Fatalf("Admit(%q): %v", id, err)
	}
	return f
}

func wantFinding(t *testing.T, c server.Session, id string, n byte, want server.Finding) {
	t.Helper()
	if got := admit(t, c, id, n); !reflect.DeepEqual(got, want) {
		t.Errorf("Admit(%q) = %+v, want %+v", id, got, want)
	}
}

func settle(t *testing.T, c server.Session, id string, a server.Answer) {
	t.Helper()
	if got := c.Settle(id, a); !reflect.DeepEqual(got, a) {
		t.Errorf("Settle(%q) = %+v, want %+v", id, got, a)
	}
}

var (
	isAdmitted = server.Finding{Kind: server.Admitted}
	yes        = server.Answer{Result: json.RawMessage(`{"a":[1,"\u003c"]}`)}
	no         = server.Answer{Refusal: &server.Refusal{Code: "failed", Reason: "<no>"}}
	later      = server.Answer{Refusal: &server.Refusal{Code: "busy", Reason: "wait", Retry: time.Second}}
)

func answered(a server.Answer) server.Finding {
	return server.Finding{Kind: server.Answered, Answer: a}
}

func messageOnce(t *testing.T, h harness) {
	s := h.store(t)
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	for id, a := range map[string]server.Answer{"1": yes, "2": no, "bytes": {}, strings.Repeat("\xff", 64): yes} {
		wantFinding(t, c, id, 1, isAdmitted)
		settle(t, c, id, a)
		wantFinding(t, c, id, 1, answered(a))
		wantFinding(t, c, id, 1, answered(a))
	}
	if id := c.DedupeID(); id == "" || id != c.DedupeID() {
		t.Errorf("DedupeID %q", id)
	}
}

func messageConflict(t *testing.T, h harness) {
	s := h.store(t)
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	wantFinding(t, c, "1", 1, isAdmitted)
	wantFinding(t, c, "1", 2, server.Finding{Kind: server.Conflict})
	settle(t, c, "1", yes)
	wantFinding(t, c, "1", 2, server.Finding{Kind: server.Conflict})
	wantFinding(t, c, "1", 1, answered(yes))
}

func messageRetry(t *testing.T, h harness) {
	s := h.store(t)
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	for range 2 {
		wantFinding(t, c, "1", 1, isAdmitted)
		settle(t, c, "1", later)
	}
	wantFinding(t, c, "1", 2, isAdmitted)
	settle(t, c, "1", no)
}

// window is for how long messages are known to tests that wait for its end: longer than
// a busy machine takes for two calls.
const window = 2 * time.Second

func messageWindow(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.DedupeWindow = window })
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	wantFinding(t, c, "1", 1, isAdmitted)
	begun := time.Now()
	settle(t, c, "1", yes)
	Eventually(t, "the answer is forgotten", func() bool {
		f := admit(t, c, "1", 1)
		if f.Kind == server.Answered && !reflect.DeepEqual(f.Answer, yes) {
			t.Errorf("answer %+v", f.Answer)
		}
		return f.Kind == server.Admitted
	})
	if after := time.Since(begun); after < window-100*time.Millisecond { // by another clock
		t.Errorf("forgotten after %v", after)
	}
	settle(t, c, "1", no)
	wantFinding(t, c, "1", 1, answered(no))
}

func memoryFull(t *testing.T, h harness) {
	s := h.store(t, func(o *server.StoreOptions) { o.DedupeLimit, o.DedupeWindow = 2, window })
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	wantFinding(t, c, "1", 1, isAdmitted)
	settle(t, c, "1", yes)
	wantFinding(t, c, "2", 1, isAdmitted)
	if f := admit(t, c, "3", 1); f.Kind != server.Full || f.Wait <= 0 || f.Wait > time.Minute {
		t.Errorf("the third: %+v, want Full", f)
	}
	Eventually(t, "there is room", func() bool { return admit(t, c, "3", 1).Kind == server.Admitted })
	settle(t, c, "3", yes)
	settle(t, c, "2", yes)
	wantFinding(t, c, "2", 1, answered(yes))
}

func memoryFullOfBytes(t *testing.T, h harness) {
	s := h.store(t)
	c, other := attach(t, s, "", "u", 0), attach(t, s, "", "v", 0)
	defer c.Detach()
	defer other.Detach()
	wantFinding(t, c, "1", 1, isAdmitted)
	settle(t, c, "1", server.Answer{Result: json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)})
	if f := admit(t, c, "2", 1); f.Kind != server.Full {
		t.Errorf("the second: %+v, want Full", f)
	}
	wantFinding(t, other, "2", 1, isAdmitted)
	settle(t, other, "2", yes)
}

// copies admits a message n times more while it runs.
func copies(t *testing.T, c server.Session, id string, n int) <-chan server.Finding {
	t.Helper()
	found := make(chan server.Finding, n)
	for range n {
		go func() {
			f, err := c.Admit(t.Context(), id, sum(1))
			if err != nil {
				t.Errorf("Admit: %v", err)
			}
			found <- f
		}()
	}
	return found
}

func copyWaits(t *testing.T, h harness) {
	s := h.store(t)
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	other := attach(t, s, "", "u", 0)
	defer other.Detach()
	wantFinding(t, c, "1", 1, isAdmitted)
	found, foundToo := copies(t, c, "1", 3), copies(t, other, "1", 3)
	// They are heard of before the answer, or after it.
	wantFinding(t, c, "2", 1, isAdmitted)
	settle(t, c, "2", no)
	settle(t, c, "1", yes)
	for range 3 {
		for _, f := range []server.Finding{<-found, <-foundToo} {
			if !reflect.DeepEqual(f, answered(yes)) {
				t.Errorf("a copy: %+v, want the answer", f)
			}
		}
	}
}

func copyGivesUp(t *testing.T, h harness) {
	s := h.store(t)
	c := attach(t, s, "", "u", 0)
	defer c.Detach()
	wantFinding(t, c, "1", 1, isAdmitted)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if f, err := c.Admit(ctx, "1", sum(1)); err == nil {
		t.Errorf("Admit = %+v, want an error", f)
	} else {
		wantErr(t, "Admit", err, context.DeadlineExceeded)
	}
	settle(t, c, "1", yes)
	wantFinding(t, c, "1", 1, answered(yes))
}

func messageSuperseded(t *testing.T, h harness) {
	s := h.store(t)
	old := attach(t, s, "", "u", 1)
	defer old.Detach()
	wantFinding(t, old, "1", 1, isAdmitted)
	c := attach(t, s, old.ID(), "u", 2)
	defer c.Detach()
	wantFinding(t, old, "2", 1, server.Finding{Kind: server.Superseded})
	found := copies(t, c, "1", 1)
	settle(t, old, "1", yes)
	if f := <-found; !reflect.DeepEqual(f, answered(yes)) {
		t.Errorf("the copy: %+v, want the answer", f)
	}
	wantFinding(t, c, "2", 1, isAdmitted)
	settle(t, c, "2", no)
}

func messageScopes(t *testing.T, h harness) {
	s := h.store(t)
	a, b, other := attach(t, s, "", "u", 0), attach(t, s, "", "u", 0), attach(t, s, "", "v", 0)
	x, y := attach(t, s, "", "", 0), attach(t, s, "", "", 0)
	for _, c := range []server.Session{a, b, other, x, y} {
		defer c.Detach()
	}
	for _, c := range []server.Session{a, other, x, y} {
		wantFinding(t, c, "1", 1, isAdmitted)
		settle(t, c, "1", yes)
	}
	wantFinding(t, b, "1", 1, answered(yes))
	if a.DedupeID() != b.DedupeID() {
		t.Errorf("one user's memory is named %q and %q", a.DedupeID(), b.DedupeID())
	}
	if x.DedupeID() == y.DedupeID() {
		t.Errorf("the memories of two anonymous sessions are named %q", x.DedupeID())
	}
}
