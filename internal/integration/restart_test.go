package integration_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// save ends the server as a planned restart does.
func (w *world) save() {
	w.t.Helper()
	w.shutDown()
	if err := w.srv.SaveState(); err != nil {
		w.t.Fatal(err)
	}
}

// saving are the options of a server that has snapshots, so that each costs one.
func saving(t *testing.T) server.Options {
	t.Helper()
	return server.Options{
		StateFile: filepath.Join(t.TempDir(), "state"),
		Snapshot: func(context.Context, string) (server.Snapshot, error) {
			return server.Snapshot{State: json.RawMessage(`"state"`)}, nil
		},
	}
}

func TestAPlannedRestartCostsNoSnapshot(t *testing.T) {
	inWorld(t, saving(t), reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		w.publish(1, 3)
		want(t, w.taken(), append([]string{`snapshot 0 "state"`}, events(1, 3)...)...)
		for i := range 3 {
			w.save()
			time.Sleep(10 * time.Second)
			w.serve(w.net.Listener())
			w.live()
			want(t, w.taken(), "resumed missed=0")
			w.publish(4+i, 4+i)
			want(t, w.taken(), events(4+i, 4+i)...)
		}
		// What it did not get before the restart it gets after it.
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		w.publish(7, 9)
		w.save()
		w.serve(w.net.Listener())
		w.publish(10, 10)
		w.net.Refuse(false)
		w.live()
		want(t, w.taken(), append([]string{"resumed missed=4"}, events(7, 10)...)...)
	})
}

func TestAMessageInDoubtSurvivesAPlannedRestart(t *testing.T) {
	inWorld(t, saving(t), reconnect.Options{}, func(w *world) {
		w.live()
		w.net.Links()[0].Mute(true, false) // acks do not arrive
		sent := make(chan string, 1)
		go func() {
			result, err := w.client.Send(w.t.Context(), json.RawMessage(`"once"`))
			sent <- fmt.Sprintf("%s %v", result, err)
		}()
		time.Sleep(time.Second)
		w.save()
		w.serve(w.net.Listener())
		w.eventually("answered", func() bool { return len(sent) > 0 })
		want(t, []string{<-sent}, `"once" <nil>`)
		if ran := w.effects[`"once"`]; ran != 1 {
			t.Errorf("ran %d times", ran)
		}
		if n := w.srv.Stats(); n.Duplicates != 1 || n.Messages != 0 {
			t.Errorf("%d answered from memory, %d run; want 1, 0", n.Duplicates, n.Messages)
		}
	})
}

// Not planned: no state is saved, and the one of the start before is not used again.
func TestACrashAfterAPlannedRestartCostsOneSnapshot(t *testing.T) {
	inWorld(t, saving(t), reconnect.Options{}, func(w *world) {
		w.subscribe("a", w.logging())
		w.live()
		w.publish(1, 2)
		w.save()
		w.serve(w.net.Listener())
		w.live()
		w.publish(3, 3)
		w.taken()
		w.crash()
		time.Sleep(10 * time.Second)
		w.serve(w.net.Listener())
		w.live()
		w.publish(1, 2)
		want(t, w.taken(), "gap snapshot=true", `snapshot 0 "state"`, "event 1 1", "event 2 2")
	})
}
