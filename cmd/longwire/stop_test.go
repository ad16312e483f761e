package main

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

func TestStoppingDrains(t *testing.T) {
	s := startServe(t, "-drain-window", "400ms", "-restart-time", "300ms", "-spread", "100ms")
	c := s.connect(nil)
	stopped := make(chan struct{})
	go func() {
		s.stop()
		close(stopped)
	}()
	if g, err := c.read(); err != nil || g.T != "drain" {
		t.Fatalf("got %+v, %v; want to be told of the drain", g, err)
	}
	// Who asks while the others leave is told to come back.
	for path, want := range map[string]int{"/ready": 503, "/probe": 503, "/healthz": 200} {
		if status, _ := s.request(http.MethodGet, path, nil); status != want {
			t.Errorf("%s: %d, want %d", path, status, want)
		}
	}
	_, err := c.read()
	low, high, ok := wire.ParseRetryReason(reasonOf(err))
	if closeCode(err) != wire.CloseRestart || !ok || low < 300e6 || high != low+100e6 {
		t.Errorf("ended with %v, want 1012 and when to come back", err)
	}
	<-stopped
}

func TestAPlannedRestartKeepsTheState(t *testing.T) {
	state := filepath.Join(t.TempDir(), "state")
	s := startServe(t, "-faults", "-state", state)
	ann := s.login("ann")
	c := s.connect(ann, "test/a")
	s.fault("publish?stream=test/a&count=3", nil)
	for range 3 {
		c.next("event")
	}
	c.say("m", map[string]any{"chat": "once"})
	ack := c.next("ack")
	session, sub := c.welcome.Session, c.welcome.Subs["test/a"]
	s.stop()

	s = startServe(t, "-faults", "-state", state)
	c = s.dialled(ann)
	c.send(map[string]any{
		"t": "resume", "v": 1, "session": session,
		"subs": map[string]any{"test/a": map[string]any{"after": 1, "epoch": sub.Epoch}},
	})
	if w := c.next("welcome"); w.Session != session || w.Subs["test/a"].Resync || w.Subs["test/a"].Seq != 3 {
		t.Errorf("welcome %+v, want the session and the stream as they were", w)
	}
	for seq := uint64(2); seq <= 3; seq++ {
		if g := c.next("event"); g.Seq != seq || string(g.Data) != fmt.Sprintf(`{"n":%d}`, seq) {
			t.Errorf("got %+v, want event %d", g, seq)
		}
	}
	c.say("m", map[string]any{"chat": "once"})
	if again := c.next("ack"); string(again.Result) != string(ack.Result) {
		t.Errorf("answered with %s, before the restart with %s", again.Result, ack.Result)
	}
}

func TestAStateFileThatCannotBeWrittenIsAnErrorAtOnce(t *testing.T) {
	var stderr strings.Builder
	args := []string{"serve", "-addr", "127.0.0.1:0", "-state", filepath.Join(t.TempDir(), "no", "such", "folder")}
	if code := run(t.Context(), args, &strings.Builder{}, &stderr); code == 0 || !strings.Contains(stderr.String(), "StateFile") {
		t.Errorf("exit code %d, stderr %q", code, stderr.String())
	}
}

func reasonOf(err error) string {
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		return e.Reason
	}
	return ""
}
