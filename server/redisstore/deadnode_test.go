package redisstore_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/server/storetest"
	"github.com/longwire/longwire/wire"
)

var yes = server.Answer{Result: json.RawMessage(`"yes"`)}

// admit says that a message is new, or ends the test.
func admit(t *testing.T, c server.Session, id string) {
	t.Helper()
	if f, err := c.Admit(t.Context(), id, [16]byte{1}); err != nil || f.Kind != server.Admitted {
		t.Fatalf("Admit(%q): %+v, %v; want it admitted", id, f, err)
	}
}

// elsewhere asks for a message that runs on another node.
func elsewhere(t *testing.T, c server.Session, id string) <-chan server.Finding {
	t.Helper()
	found := make(chan server.Finding, 1)
	go func() {
		f, err := c.Admit(t.Context(), id, [16]byte{1})
		if err != nil {
			t.Errorf("Admit: %v", err)
		}
		found <- f
	}()
	return found
}

func TestCopyOnAnotherNodeWaits(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a, b := node(t, r.URL()), node(t, r.URL())
	c, d := attach(t, a, "", "u", 0, nobody), attach(t, b, "", "u", 0, nobody)
	admit(t, c, "1")
	found := elsewhere(t, d, "1")
	select {
	case f := <-found:
		t.Errorf("it did not wait: %+v", f)
	case <-time.After(200 * time.Millisecond):
	}
	c.Settle("1", yes)
	if f := <-found; !reflect.DeepEqual(f, server.Finding{Kind: server.Answered, Answer: yes}) {
		t.Errorf("got %+v", f)
	}
}

func isUnknown(f server.Finding) bool {
	return f.Kind == server.Answered && f.Answer.Refusal != nil && f.Answer.Refusal.Code == wire.NackUnknown && f.Answer.Refusal.Retry == 0
}

// The node that ran a message is gone: whether it took effect cannot be said. It is not
// run again, and not waited for.
func TestMessageOfADeadNode(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, proxy.URL(), impatient), node(t, r.URL())
	c, d := attach(t, a, "", "u", 0, nobody), attach(t, b, "", "u", 0, nobody)
	for _, id := range []string{"1", "2", "3"} {
		admit(t, c, id)
	}
	found := elsewhere(t, d, "1")
	proxy.Down()
	began := time.Now()
	if f := <-found; !isUnknown(f) {
		t.Errorf("got %+v, want unknown", f)
	}
	if took := time.Since(began); took < 5*time.Second || took > 25*time.Second {
		t.Errorf("it took %v, want about the ten seconds of the lease", took)
	}
	// Nobody has asked for the others, which do not fill the memory all the same.
	storetest.Eventually(t, "they are given up as well", func() bool {
		return r.Client().ZCount(t.Context(), "{t:0}o:u", "1e15", "+inf").Val() == 0
	})
	// It was only cut off, and comes late with another answer.
	settled := make(chan server.Answer, 1)
	go func() { settled <- c.Settle("2", yes) }()
	proxy.Up()
	if a := <-settled; !isUnknown(server.Finding{Kind: server.Answered, Answer: a}) {
		t.Errorf("Settle = %+v, want unknown", a)
	}
	if f := <-elsewhere(t, d, "2"); !isUnknown(f) {
		t.Errorf("got %+v, want unknown", f)
	}
}

// A store that is closed gives its lease up.
func TestMessageOfAClosedNode(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a, b := node(t, r.URL()), node(t, r.URL())
	c, d := attach(t, a, "", "", 0, nobody), attach(t, b, "", "", 0, nobody)
	admit(t, c, "1")
	admit(t, d, "1") // an anonymous session has a memory of its own
	d.Settle("1", yes)
	e := attach(t, b, c.ID(), "", 0, nobody)
	found := elsewhere(t, e, "1")
	began := time.Now()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	if f := <-found; !isUnknown(f) {
		t.Errorf("got %+v, want unknown", f)
	}
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
}

// The answer to a message outlives an absence of Redis.
func TestSettleGoesOnWhileRedisIsAway(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, proxy.URL(), impatient), node(t, r.URL())
	c, d := attach(t, a, "", "u", 0, nobody), attach(t, b, "", "u", 0, nobody)
	admit(t, c, "1")
	proxy.Down()
	if got := c.Settle("1", yes); !reflect.DeepEqual(got, yes) {
		t.Errorf("Settle = %+v", got)
	}
	found := elsewhere(t, d, "1")
	proxy.Up()
	if f := <-found; !reflect.DeepEqual(f, server.Finding{Kind: server.Answered, Answer: yes}) {
		t.Errorf("got %+v", f)
	}
}

// The answer of Redis to an Admit is lost: the message is not admitted, and nobody
// waits for it.
func TestAdmitThatFailsIsForgotten(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	proxy := redistest.StartProxy(t, r.Addr())
	a, b := node(t, proxy.URL(), impatient), node(t, r.URL())
	c, d := attach(t, a, "", "u", 0, nobody), attach(t, b, "", "u", 0, nobody)
	proxy.Mute()
	failed := make(chan error, 1)
	go func() {
		_, err := c.Admit(t.Context(), "1", [16]byte{1})
		failed <- err
	}()
	storetest.Eventually(t, "the message has arrived", func() bool {
		return r.Client().HExists(t.Context(), "{t:0}d:u", ":1").Val()
	})
	if err := <-failed; err == nil {
		t.Fatal("Admit is answered")
	}
	proxy.Up()
	proxy.Cut()
	if f := <-elsewhere(t, d, "1"); f.Kind != server.Admitted {
		t.Errorf("got %+v, want it admitted", f)
	}
	d.Settle("1", yes)
}

// While Redis has lost everything a message runs on.
func TestMessageThatRunsThroughAFlush(t *testing.T) {
	t.Parallel()
	r := redistest.Start(t)
	a := node(t, r.URL())
	c := attach(t, a, "", "u", 0, nobody)
	admit(t, c, "1")
	r.Do("FLUSHALL")
	if got := c.Settle("1", yes); !reflect.DeepEqual(got, yes) {
		t.Errorf("Settle = %+v", got)
	}
	if f := <-elsewhere(t, c, "1"); !reflect.DeepEqual(f, server.Finding{Kind: server.Answered, Answer: yes}) {
		t.Errorf("got %+v", f)
	}
}
