package server

import (
	"runtime"
	"testing"
)

// A session whose connection ends while a sweep is past the sessions has a sweep of its
// own to come: else it would stay until another one ends.
func TestWhatIsIdleSinceASweepBeganIsLookedAtLater(t *testing.T) {
	m := newMemoryStore(StoreOptions{UserSessions: 2, IdleSessions: 2}) // a session lives for no time
	attach := func() Session {
		s, err := m.Attach(t.Context(), Attachment{User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	early, late := attach(), attach()
	early.Detach()
	m.streams.mu.Lock() // holds the sweep up, behind the sessions
	swept := make(chan struct{})
	go func() {
		defer close(swept)
		m.sweep()
	}()
	for m.sessions.count() == 2 {
		runtime.Gosched()
	}
	late.Detach()
	m.streams.mu.Unlock()
	<-swept
	m.mu.Lock()
	if m.sweeper == nil {
		t.Error("nobody will look at it")
	}
	m.mu.Unlock()
	if err := m.Close(); err != nil {
		t.Error(err)
	}
}
