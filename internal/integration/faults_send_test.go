package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/server"
)

// ordered is a server option that notes the messages in the order they take effect.
func ordered(w *[]string) func(context.Context, server.Message) (json.RawMessage, error) {
	var mu sync.Mutex
	return func(_ context.Context, m server.Message) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		*w = append(*w, string(m.Body))
		return m.Body, nil
	}
}

// sendAll sends the bodies, in order, and returns what will be their errors.
func (w *world) sendAll(bodies ...string) chan error {
	errs := make(chan error, len(bodies))
	for _, body := range bodies {
		go func() {
			_, err := w.client.Send(w.t.Context(), json.RawMessage(body))
			errs <- err
		}()
		synctest.Wait() // for their order
	}
	return errs
}

func numbers(n int) []string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprint(i)
	}
	return list
}

// The server is heard and does not hear: events must not pass for a working uplink.
func TestADeadUplinkIsFoundOutAlthoughEventsArrive(t *testing.T) {
	var effects []string
	// Sooner than the server, which misses its client after 30 s.
	p := reconnect.Policy{IdleTimeout: 20 * time.Second}
	inWorld(t, server.Options{OnMessage: ordered(&effects)}, reconnect.Options{Policy: p}, func(w *world) {
		h := gapsOnly(w.logging())
		w.subscribe("a", h)
		w.live()
		w.net.Links()[0].Mute(false, true)
		begun := time.Now()
		errs := w.sendAll(`"once"`)
		n := 0
		for len(errs) == 0 && time.Since(begun) < 2*time.Minute {
			n++
			w.publish(n, n)
			time.Sleep(time.Second)
		}
		if err := <-errs; err != nil || !slices.Equal(effects, []string{`"once"`}) {
			t.Errorf("%v; effects %q", err, effects)
		}
		// 5 s for the acknowledgement, at most the idle timeout for the pong, spread.
		if took := time.Since(begun); took > 35*time.Second {
			t.Errorf("took %v", took)
		}
		want(t, w.taken(), events(1, n)...)
		if s := w.client.Status(); s.LastClose == nil || s.LastClose.Code != 4408 {
			t.Errorf("got %+v", s.LastClose)
		}
	})
}

// Written into a link that is dead and not yet known to be: what matters is the
// acknowledgement.
func TestWhatWasWrittenIntoADeadLinkIsDeliveredOnceAndInOrder(t *testing.T) {
	var effects []string
	inWorld(t, server.Options{OnMessage: ordered(&effects)}, reconnect.Options{}, func(w *world) {
		w.live()
		w.net.Links()[0].Mute(false, true)
		errs := w.sendAll(numbers(10)...)
		time.Sleep(4 * time.Second)
		w.net.Cut()
		for range 10 {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		want(t, effects, numbers(10)...)
	})
}

// Handled, and the answer lost on its way back: the resend gets the same answer.
func TestAnAnswerThatIsLostComesAgain(t *testing.T) {
	var effects []string
	inWorld(t, server.Options{OnMessage: ordered(&effects)}, reconnect.Options{}, func(w *world) {
		w.live()
		w.net.Links()[0].Mute(true, false)
		errs := w.sendAll(`"five points"`)
		want(t, effects, `"five points"`)
		w.net.Cut()
		if err := <-errs; err != nil {
			t.Error(err)
		}
		want(t, effects, `"five points"`)
	})
}

// One message is larger than the server takes: refused before it goes out, and
// those around it live. The same when it was queued before the limit was known.
func TestAnOversizeMessageFailsAlone(t *testing.T) {
	for _, early := range []bool{false, true} {
		var effects []string
		inWorld(t, server.Options{OnMessage: ordered(&effects)}, reconnect.Options{}, func(w *world) {
			if !early {
				w.live()
			}
			big := `"` + strings.Repeat("x", 200<<10) + `"`
			var got [3]error
			var all sync.WaitGroup
			for i, body := range []string{`"before"`, big, `"after"`} {
				all.Go(func() { _, got[i] = w.client.Send(w.t.Context(), json.RawMessage(body)) })
				if !early {
					synctest.Wait()
				}
			}
			all.Wait()
			var tooBig *reconnect.SendError
			if got[0] != nil || got[2] != nil || !errors.As(got[1], &tooBig) || tooBig.Outcome != reconnect.NotSent || tooBig.Code != reconnect.CodeTooBig {
				t.Errorf("early %v: got %v", early, got)
			}
			slices.Sort(effects)
			want(t, effects, `"after"`, `"before"`)
			if n := w.net.Dials(); n != 1 {
				t.Errorf("%d dials: it cost the connection", n)
			}
		})
	}
}

// No call is left hanging by an outage, and what failed has no effect later.
func TestEverySendOfAnOutageIsSettled(t *testing.T) {
	for name, end := range map[string]func(w *world){
		"closed":  func(w *world) { w.stopClient() },
		"cleared": func(w *world) { w.client.Clear() },
		"expired": func(*world) {},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, server.Options{}, reconnect.Options{}, func(w *world) {
				w.live()
				w.net.Refuse(true)
				w.net.Cut()
				synctest.Wait()
				errs := w.sendAll(numbers(5)...)
				end(w)
				for range 5 {
					var sendErr *reconnect.SendError
					if err := <-errs; !errors.As(err, &sendErr) || sendErr.Outcome != reconnect.NotSent {
						t.Errorf("got %v, want not sent", err)
					}
				}
				w.net.Refuse(false)
				time.Sleep(time.Minute)
				if n := len(w.effects); n != 0 {
					t.Errorf("%d messages took effect", n)
				}
			})
		})
	}
}

// On a line of two seconds, b is refused for one. It returns only once c, which was under
// way by then, is refused too: else d would be taken before c.
func TestARefusalOnALongLineKeepsTheOrder(t *testing.T) {
	var effects []string
	note := ordered(&effects)
	refused := false
	o := server.Options{OnMessage: func(ctx context.Context, m server.Message) (json.RawMessage, error) {
		if string(m.Body) == `"b"` && !refused {
			refused = true
			return nil, &server.Refusal{Retry: time.Second}
		}
		return note(ctx, m)
	}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		w.live()
		w.net.Delay(0, 2*time.Second)
		errs := w.sendAll(`"a"`, `"b"`)
		time.Sleep(1900 * time.Millisecond)
		more := w.sendAll(`"c"`)
		time.Sleep(500 * time.Millisecond)
		most := w.sendAll(`"d"`)
		for _, errs := range []<-chan error{errs, errs, more, most} {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
		if want := []string{`"a"`, `"b"`, `"c"`, `"d"`}; !slices.Equal(effects, want) {
			t.Errorf("got %q, want %q", effects, want)
		}
	})
}

// A thousand messages that waited for a connection, and a rate that lets a hundred a
// second through: each is handled once, in order, without a close.
func TestABacklogIsTakenAtTheRateOfTheServer(t *testing.T) {
	const messages = 1000
	var mu sync.Mutex
	var handled []string
	o := server.Options{OnMessage: func(_ context.Context, m server.Message) (json.RawMessage, error) {
		mu.Lock()
		defer mu.Unlock()
		handled = append(handled, string(m.Body))
		return nil, nil
	}}
	inWorld(t, o, reconnect.Options{}, func(w *world) {
		w.live()
		w.net.Refuse(true)
		w.net.Cut()
		synctest.Wait()
		failed := make(chan error, messages)
		for i := range messages {
			go func() {
				_, err := w.client.Send(w.t.Context(), fmt.Append(nil, i))
				failed <- err
			}()
			synctest.Wait() // so that the order of sending is this one
		}
		w.net.Refuse(false)
		w.live()
		begun := time.Now()
		for range messages {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
		took := time.Since(begun)
		if took < 7*time.Second || took > 12*time.Second {
			t.Errorf("took %v; 200 may come at once, and 100 a second", took)
		}
		mu.Lock()
		defer mu.Unlock()
		for i, body := range handled {
			if body != fmt.Sprint(i) {
				t.Fatalf("number %d was %s", i, body)
			}
		}
		if n := w.client.Totals().Sessions; len(handled) != messages || n != 2 {
			t.Errorf("%d handled, %d sessions", len(handled), n)
		}
		s := w.srv.Stats()
		t.Logf("took %v, %d refused for now, limited %d", took, s.Refused, s.Limited)
	})
}
