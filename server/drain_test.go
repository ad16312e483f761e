package server_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// ending is what one who reads everything saw of a connection.
type ending struct {
	events    uint64        // the number of the last one of stream s
	drains    []int64       // what the drain frames announced, in ms
	at        time.Time     // of the end
	code      int           // of the close frame
	low, high time.Duration // when to come back
}

// watch resumes and reads until the connection ends; what it saw can be taken then.
func (w *world) watch(resume string) <-chan ending {
	w.t.Helper()
	c := w.dialSilently("")
	c.send("%s", resume)
	seen := make(chan ending, 1)
	go func() { seen <- w.readAll(c.ws, 0) }()
	return seen
}

// readAll reads until the connection ends, with a pause after each message.
func (w *world) readAll(ws *websocket.Conn, pause time.Duration) (e ending) {
	w.t.Helper()
	positions := make(map[string]uint64)
	for {
		_, msg, err := ws.Read(context.Background())
		if err != nil {
			e.at, e.events = time.Now(), positions["s"]
			if closed, ok := errors.AsType[websocket.CloseError](err); ok {
				e.code = int(closed.Code)
				e.low, e.high, _ = wire.ParseRetryReason(closed.Reason)
			}
			return e
		}
		frames, err := wire.Decode(msg)
		if err != nil {
			w.t.Errorf("unreadable message %.200q: %v", msg, err)
		}
		for _, f := range frames {
			follows(w.t, positions, f)
			if d, ok := f.(wire.Drain); ok {
				e.drains = append(e.drains, d.Within)
			}
		}
		time.Sleep(pause)
	}
}

const (
	baseHello = `{"t":"resume","subs":{"s":{}}}`
	fullHello = `{"t":"resume","v":1,"batch":true,"subs":{"s":{}}}`
)

// drained is what a drain came to.
type drained struct {
	report server.DrainReport
	err    error
}

// drain begins one in a goroutine; a limit of zero is no deadline.
func (w *world) drain(window, limit time.Duration) <-chan drained {
	w.t.Helper()
	synctest.Wait()
	done := make(chan drained, 1)
	ctx, cancel := context.WithCancel(w.t.Context())
	if limit > 0 {
		ctx, cancel = context.WithTimeout(w.t.Context(), limit)
	}
	go func() {
		defer cancel()
		report, err := w.srv.Drain(ctx, window)
		done <- drained{report, err}
	}()
	synctest.Wait()
	return done
}

// ready is the status of the readiness handler.
func (w *world) ready() int {
	w.t.Helper()
	rec := httptest.NewRecorder()
	w.srv.Ready().ServeHTTP(rec, httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "/", nil))
	if rec.Code == http.StatusServiceUnavailable && rec.Header().Get("Retry-After") == "" {
		w.t.Error("not ready, and no Retry-After")
	}
	return rec.Code
}

// Idle, in the middle of a replay, reading nothing: who reads is told, what it has
// got is without a hole, and the drain ends by its deadline.
func TestDrainTellsEveryOneThatReads(t *testing.T) {
	const backlog = 400
	data := `"` + strings.Repeat("x", 4<<10) + `"`
	inWorld(t, server.Options{RestartTime: 3 * time.Second}, func(t *testing.T, w *world) {
		for range backlog {
			w.publish("s", data)
		}
		epoch := w.join("ann", `"subs":{"s":{}}`).welcome.Subs["s"].Epoch
		var idle, replaying []<-chan ending
		for n := range 69 {
			idle = append(idle, w.watch([]string{baseHello, fullHello}[n%2]))
		}
		for range 29 {
			c := w.dialSilently("")
			c.send(`{"t":"resume","v":1,%s}`, wanted("s", 0, epoch))
			seen := make(chan ending, 1)
			replaying = append(replaying, seen)
			go func() { seen <- w.readAll(c.ws, 20*time.Millisecond) }()
		}
		w.dialSilently("").send(`{"t":"resume","v":1,%s}`, wanted("s", 0, epoch)) // reads nothing
		time.Sleep(time.Second)
		begun := time.Now()
		const window, limit = 4 * time.Second, 6 * time.Second
		done := <-w.drain(window, limit)
		want(t, "error", done.err, context.DeadlineExceeded)
		want(t, "report", done.report, server.DrainReport{Connections: 100, Closed: 99, Forced: 1, Took: limit})
		for _, seen := range slices.Concat(idle, replaying) {
			e := <-seen
			back := e.at.Sub(begun) + e.low
			want(t, "code, and width of the range", []any{e.code, e.high - e.low}, []any{wire.CloseRestart, 8 * time.Second})
			if least := window + 3*time.Second; back < least-time.Millisecond || back > least+100*time.Millisecond {
				t.Errorf("told to come back after %v, want %v", back, least)
			}
		}
	})
}

// Who has no jitter of its own must not come back as a herd.
func TestDrainSpreadsItsCloses(t *testing.T) {
	const clients, window = 1000, 4 * time.Second
	inWorld(t, server.Options{Admission: server.Admission{Handshakes: clients}}, func(t *testing.T, w *world) {
		var watched []<-chan ending
		for range clients {
			watched = append(watched, w.watch(baseHello))
		}
		synctest.Wait()
		begun := time.Now()
		var published []time.Duration
		stop := make(chan struct{})
		ticker := time.NewTicker(101 * time.Millisecond)
		defer ticker.Stop()
		go func() {
			for {
				select {
				case <-ticker.C:
					w.publish("s", `1`)
					published = append(published, time.Since(begun))
				case <-stop:
					return
				}
			}
		}()
		done := <-w.drain(window, window+time.Second)
		close(stop)
		synctest.Wait()
		want(t, "report", done.report, server.DrainReport{Connections: clients, Closed: clients, Took: window})
		want(t, "error", done.err, nil)
		buckets := make(map[time.Duration]int)
		for _, seen := range watched {
			e := <-seen
			at := e.at.Sub(begun)
			buckets[at/(250*time.Millisecond)]++
			want(t, "code, and drain frames to a client of the base frames", []any{e.code, len(e.drains)}, []any{wire.CloseRestart, 0})
			// Everything that was published until its turn, and nothing left out.
			until, _ := slices.BinarySearch(published, at)
			if n := int(e.events); n < until-1 || n > until+1 {
				t.Fatalf("closed after %v with %d events, of %d published by then", at, n, until)
			}
		}
		for bucket, n := range buckets {
			if n >= clients*15/100 {
				t.Errorf("%d of %d were closed in quarter second %d", n, clients, bucket)
			}
		}
	})
}

// Clients that know the drain frame get the first half of the window to move.
func TestDrainClosesWhoMayMoveInTheSecondHalf(t *testing.T) {
	const window = 10 * time.Second
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		var base, full []<-chan ending
		for range 20 {
			base, full = append(base, w.watch(baseHello)), append(full, w.watch(fullHello))
		}
		mover := w.join("ann")
		synctest.Wait()
		begun := time.Now()
		draining := w.drain(window, 0)
		mover.expect(wire.Drain{Within: window.Milliseconds()})
		_ = mover.ws.Close(websocket.StatusNormalClosure, "moved")
		done := <-draining
		want(t, "report", done.report, server.DrainReport{Connections: 41, Moved: 1, Closed: 40, Took: window})
		want(t, "error", done.err, nil)
		first := window
		for _, seen := range full {
			e := <-seen
			want(t, "drain frames", e.drains, []int64{window.Milliseconds()})
			first = min(first, e.at.Sub(begun))
		}
		if first < window/2 || first > window*6/10 {
			t.Errorf("the first of those that may move was closed after %v of %v", first, window)
		}
		for _, seen := range base {
			first = min(first, (<-seen).at.Sub(begun))
		}
		want(t, "first of the others", first, window/20)
	})
}

func TestDrainWithoutAWindowClosesAtOnce(t *testing.T) {
	for _, window := range []time.Duration{0, -time.Hour} {
		inWorld(t, server.Options{Spread: 2 * time.Second}, func(t *testing.T, w *world) {
			base, full := w.watch(baseHello), w.watch(fullHello)
			synctest.Wait()
			begun := time.Now()
			done := <-w.drain(window, 0)
			want(t, "report", done.report, server.DrainReport{Connections: 2, Closed: 2})
			for _, seen := range []<-chan ending{base, full} {
				// No time to move: told so, a client would dial without its jitter.
				want(t, "ending", <-seen, ending{at: begun, code: wire.CloseRestart, low: time.Second, high: 3 * time.Second})
			}
		})
	}
}

// One that ignores close frames and one that stopped reading are dropped when the
// time is over. They hold up nobody else.
func TestDrainDropsStragglersAtItsDeadline(t *testing.T) {
	var logged strings.Builder
	inWorld(t, server.Options{Logger: slog.New(slog.NewTextHandler(&logged, nil))}, func(t *testing.T, w *world) {
		deaf := w.raw(fullHello)
		stuck := w.dialSilently("")
		stuck.send(fullHello)
		for range 100 {
			w.publish("s", `"`+strings.Repeat("x", 4<<10)+`"`)
			synctest.Wait()
		}
		var others []<-chan ending
		for range 10 {
			others = append(others, w.watch(baseHello))
		}
		begun := time.Now()
		done := <-w.drain(time.Second, 2*time.Second)
		want(t, "report", done.report, server.DrainReport{Connections: 12, Closed: 10, Forced: 2, Took: 2 * time.Second})
		want(t, "error", done.err, context.DeadlineExceeded)
		for _, seen := range others {
			if e := <-seen; e.code != wire.CloseRestart || e.at.Sub(begun) > time.Second {
				t.Errorf("closed with %d after %v", e.code, e.at.Sub(begun))
			}
		}
		deaf.ended()
		if got := logged.String(); !strings.Contains(got, "connections=12 moved=0 closed=10 forced=2") {
			t.Errorf("log:\n%s", got)
		}
		synctest.Wait()
		want(t, "connections", w.srv.Stats().Connections, 0)
	})
}

func TestDrainWithoutADeadlineWaitsForNoGoodbyeLongerThanFiveSeconds(t *testing.T) {
	inWorld(t, server.Options{}, func(t *testing.T, w *world) {
		w.raw(fullHello)
		done := <-w.drain(time.Second, 0)
		want(t, "report", done.report, server.DrainReport{Connections: 1, Closed: 1, Took: 6 * time.Second})
		want(t, "error", done.err, nil)
	})
}

// A connection that was closed for another reason is not one of those that the drain
// closed, even when it lingers until the deadline.
func TestDrainCountsWhatItDid(t *testing.T) {
	inWorld(t, server.Options{Authenticate: byHeader}, func(t *testing.T, w *world) {
		w.raw(fullHello, "User: ann")
		banned := w.drain(3*time.Second, 4*time.Second)
		want(t, "disconnected", w.srv.Disconnect("ann", wire.CloseForbidden, "banned"), 1)
		done := <-banned
		want(t, "report", done.report, server.DrainReport{Connections: 1, Forced: 1, Took: 4 * time.Second})
	})
}
