package jsbridge

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/hack-pad/safejs"
)

// The tests of this file run one scenario twice: against coder/websocket as it is,
// where they assert what it loses, and against Socket. When the first half fails,
// upstream has repaired something, and a repair here may go.

// bare is a connection of coder's alone, and the socket under it, watched.
type bare struct {
	ws     safejs.Value
	closed chan struct{} // the browser's close event has passed
	conn   *websocket.Conn
	err    error
}

// dialBare dials with coder. ctx.waiting is called when coder has the socket.
func dialBare(t *testing.T, url string, ctx dialing) *bare {
	t.Helper()
	constructor := must(safejs.Global().Get("WebSocket"))
	b := &bare{ws: must(constructor.New(url)), closed: make(chan struct{})}
	restore := must(standIn(constructor, b.ws))
	waiting := ctx.waiting
	ctx.waiting = func() {
		restore()
		if waiting != nil {
			waiting()
		}
	}
	b.conn, _, b.err = websocket.Dial(ctx, url, nil)
	// After coder's own listeners, so that coder knows of the close first.
	events := must(newListener("test", func(safejs.Value) { close(b.closed) }))
	must(0, events.listen(b.ws, "close"))
	t.Cleanup(func() {
		events.remove()
		//nolint:errcheck // a legal close
		b.ws.Call("close", 4001, "test over")
	})
	return b
}

// dialing is a dialContext that ends when done is closed.
type dialing struct {
	dialContext
	done chan struct{}
}

func (d dialing) Done() <-chan struct{} {
	d.dialContext.Done()
	return d.done
}

func (dialing) Err() error { return context.Canceled }

func TestRepairCloseCode(t *testing.T) {
	for _, code := range []int{1012, 1013, 4401} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Run("bare", func(t *testing.T) {
				b := dialBare(t, at("/ws/frames", newID(), "code", fmt.Sprint(code)), dialing{})
				if b.err != nil {
					t.Fatal(b.err)
				}
				_, _, err := b.conn.Read(within(t))
				if got := websocket.CloseStatus(err); got != -1 || !errors.Is(err, net.ErrClosed) {
					t.Errorf("Read: %v (code %d): upstream tells the code now", err, got)
				}
			})
			t.Run("ours", func(t *testing.T) {
				r := newRecord()
				dial(t, at("/ws/frames", newID(), "code", fmt.Sprint(code), "reason", "why"), r)
				r.expect(t, "open", fmt.Sprintf("close %d %q true", code, "why"))
			})
		})
	}
}

// A reader that is late for five frames and the close after them.
func TestRepairFramesAtClose(t *testing.T) {
	const frames, runs = 5, 12
	url := func() string { return at("/ws/frames", newID(), "n", fmt.Sprint(frames), "code", "4401") }
	t.Run("bare", func(t *testing.T) {
		complete := 0
		for range runs {
			b := dialBare(t, url(), dialing{})
			if b.err != nil {
				t.Fatal(b.err)
			}
			wait(t, b.closed, "the close event")
			n := 0
			for ; n < frames; n++ {
				if _, _, err := b.conn.Read(within(t)); err != nil {
					break
				}
			}
			if n == frames {
				complete++
			}
		}
		// By chance, one run in 32 is complete.
		if complete == runs {
			t.Errorf("all of %d runs were complete: upstream keeps the frames now", runs)
		}
	})
	t.Run("ours", func(t *testing.T) {
		for range runs {
			r := newRecord()
			h := r.handler()
			open, ready := h.Open, make(chan struct{})
			h.Open = func() {
				open()
				wait(t, ready, "the close event")
			}
			s, err := Dial(url(), h)
			if err != nil {
				t.Fatal(err)
			}
			events := must(newListener("test", func(safejs.Value) { close(ready) }))
			must(0, events.listen(s.ws, "close"))
			r.expect(t, "open", "text 1", "text 2", "text 3", "text 4", "text 5", `close 4401 "" true`)
			events.remove()
		}
	})
}

// A dial that is given up while the server has not answered the upgrade.
func TestRepairDialGivenUp(t *testing.T) {
	t.Run("bare", func(t *testing.T) {
		done := make(chan struct{})
		b := dialBare(t, at("/ws/silent", newID()), dialing{dialContext{waiting: func() { close(done) }}, done})
		if !errors.Is(b.err, context.Canceled) {
			t.Fatalf("Dial: %v", b.err)
		}
		if got := readyState(b.ws); got != 0 {
			t.Errorf("readyState %d: upstream leaves the socket now", got)
		}
	})
	t.Run("ours", func(t *testing.T) {
		for _, asked := range []bool{false, true} {
			funcs, goroutines := LiveFuncs(), runtime.NumGoroutine()
			id, r := newID(), newRecord()
			s := dial(t, at("/ws/silent", id), r)
			if asked {
				if got := seen(t, id); got != "asked" {
					t.Fatalf("server saw %q", got)
				}
				goroutines = runtime.NumGoroutine() - 1 // without the socket's
			}
			s.Abandon(4001, "leaving")
			if got := readyState(s.ws); got < 2 {
				t.Errorf("readyState %d right after Abandon, want 2 or 3", got)
			}
			if got := LiveFuncs(); got != funcs {
				t.Errorf("%d live Funcs right after Abandon, want %d", got, funcs)
			}
			if got := runtime.NumGoroutine(); got != goroutines {
				t.Errorf("%d goroutines right after Abandon, want %d", got, goroutines)
			}
			if asked {
				if got := seen(t, id); got != "gone" {
					t.Errorf("server saw %q, want its client gone", got)
				}
			}
			// The browser makes one connection to a host at a time: the next must not wait.
			next := newRecord()
			dial(t, at("/ws/frames", newID(), "code", "1000"), next)
			next.expect(t, "open", `close 1000 "" true`)
			if got := r.all(); len(got) != 0 {
				t.Errorf("the abandoned socket's handler was told %q", got)
			}
		}
	})
}

// A socket that stands and is left at once.
func TestRepairLeaveOpenSocket(t *testing.T) {
	t.Run("bare", func(t *testing.T) {
		b := dialBare(t, at("/ws/echo", newID()), dialing{})
		if b.err != nil {
			t.Fatal(b.err)
		}
		if err := b.conn.CloseNow(); err == nil {
			t.Error("CloseNow: no error: upstream closes with a legal code now")
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, _, err := b.conn.Read(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("Read: %v", err)
		}
		if got := readyState(b.ws); got != readyStateOpen {
			t.Errorf("readyState %d: upstream leaves the socket now", got)
		}
	})
	t.Run("bare, message above the limit", func(t *testing.T) {
		id := newID()
		b := dialBare(t, at("/ws/echo", id), dialing{})
		if b.err != nil {
			t.Fatal(b.err)
		}
		if err := b.conn.Write(t.Context(), websocket.MessageText, make([]byte, 40_000)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.conn.Read(within(t)); !errors.Is(err, websocket.ErrMessageTooBig) {
			t.Errorf("Read: %v", err)
		}
		if got := readyState(b.ws); got != readyStateOpen {
			t.Errorf("readyState %d: upstream leaves the socket now", got)
		}
	})
	t.Run("ours", func(t *testing.T) {
		id, r := newID(), newRecord()
		s := dial(t, at("/ws/echo", id), r)
		wait(t, r.opened, "open")
		s.Abandon(1001, "leaving")
		if got := readyState(s.ws); got != 2 {
			t.Errorf("readyState %d right after Abandon, want 2", got)
		}
		if got := seen(t, id); got != "close 4001 leaving" {
			t.Errorf("server saw %q, want close 4001 leaving", got)
		}
		if got := r.all(); len(got) != 1 {
			t.Errorf("handler was told %q, want open only", got)
		}
	})
}

// A peer that does not answer the close.
func TestRepairCloseDoesNotWait(t *testing.T) {
	t.Run("bare", func(t *testing.T) {
		id := newID()
		b := dialBare(t, at("/ws/swallow", id), dialing{})
		if b.err != nil {
			t.Fatal(b.err)
		}
		returned := make(chan error, 1)
		go func() { returned <- b.conn.Close(websocket.StatusNormalClosure, "") }()
		select {
		case err := <-returned:
			t.Errorf("Close returned %v: upstream does not wait for the peer now", err)
		case <-time.After(200 * time.Millisecond):
		}
		ask(t, at("/release", id))
		if err := wait(t, returned, "Close, once the peer is gone"); err == nil {
			t.Error("Close: no error, though the connection was dropped")
		}
	})
	t.Run("ours", func(t *testing.T) {
		id, r := newID(), newRecord()
		s := dial(t, at("/ws/swallow", id), r)
		wait(t, r.opened, "open")
		s.Close(1000, "") // returns, or the test never ends
		if got := r.all(); len(got) != 1 {
			t.Errorf("handler was told %q, want open only", got)
		}
		ask(t, at("/release", id))
		r.expect(t, "open", `close 1006 "" false`)
	})
	t.Run("ours, abandoned, close event much later", func(t *testing.T) {
		funcs, goroutines := LiveFuncs(), runtime.NumGoroutine()
		id, r := newID(), newRecord()
		s := dial(t, at("/ws/swallow", id), r)
		wait(t, r.opened, "open")
		s.Close(4408, "no sign of life")
		s.Abandon(4408, "no sign of life")
		if got := LiveFuncs(); got != funcs {
			t.Errorf("%d live Funcs right after Abandon, want %d", got, funcs)
		}
		if got := runtime.NumGoroutine(); got != goroutines {
			t.Errorf("%d goroutines right after Abandon, want %d", got, goroutines)
		}
		closed := make(chan struct{})
		events := must(newListener("test", func(safejs.Value) { close(closed) }))
		defer events.remove()
		must(0, events.listen(s.ws, "close"))
		ask(t, at("/release", id))
		wait(t, closed, "the browser's close event")
		if got := r.all(); len(got) != 1 {
			t.Errorf("handler was told %q, want open only", got)
		}
	})
}

// 200 sockets that end in every way leave nothing behind.
func TestSocketsLeaveNothing(t *testing.T) {
	funcs, goroutines := LiveFuncs(), runtime.NumGoroutine()
	for i := range 200 {
		switch i % 4 {
		case 0:
			r := newRecord()
			must(Dial(at("/ws/frames", newID(), "n", "2", "code", "4401"), r.handler()))
			wait(t, r.closed, "the close")
		case 1:
			r := newRecord()
			s := must(Dial(at("/ws/echo", newID()), r.handler()))
			wait(t, r.opened, "open")
			s.Abandon(4001, "")
			s.Abandon(4001, "twice does nothing")
		case 2:
			must(Dial(at("/ws/silent", newID()), SocketHandler{})).Abandon(4001, "")
		case 3:
			r := newRecord()
			s := must(Dial(at("/ws/echo", newID()), r.handler()))
			s.Close(1000, "while connecting")
			wait(t, r.closed, "the close")
		}
	}
	runtime.Gosched()
	if got := LiveFuncs(); got != funcs {
		t.Errorf("%d live Funcs, want %d", got, funcs)
	}
	if got := runtime.NumGoroutine(); got != goroutines {
		t.Errorf("%d goroutines, want %d", got, goroutines)
	}
}

// The error event makes coder close with 1011. A browser throws; where a page has
// replaced WebSocket by something that does not, coder waits within the event, and
// the end is never reported.
func TestSocketKeepsErrorsFromCoder(t *testing.T) {
	page := must(safejs.Global().Get("WebSocket"))
	must(eval(`globalThis.closes = []`))
	lenient := must(eval(`class extends WebSocket {
		close(code, reason) {
			closes.push(code)
			if (code === undefined || code === 1000 || code >= 3000) super.close(code, reason)
		}
	}`))
	must(0, safejs.Global().Set("WebSocket", lenient))
	defer func() { must(0, safejs.Global().Set("WebSocket", page)) }()
	r := newRecord()
	s := dial(t, "ws://127.0.0.1:1/", r)
	r.expect(t, `close 1006 "" false`)
	if got := must(must(eval(`closes.join()`)).String()); got != "" {
		t.Errorf("closed with %q, want not at all", got)
	}
	s.Abandon(1001, "")
	if got := must(must(eval(`closes.join()`)).String()); got != "4001" {
		t.Errorf("closed with %q, want 4001", got)
	}
}

// Left from within its own message handler, and from within an event of the page.
func TestAbandonWithinCallbacks(t *testing.T) {
	goroutines := runtime.NumGoroutine()
	t.Run("message", func(t *testing.T) {
		id, r := newID(), newRecord()
		h, s := r.handler(), (*Socket)(nil)
		message := h.Message
		h.Message = func(data []byte, binary bool) {
			message(data, binary)
			s.Abandon(4001, "seen enough")
		}
		s = must(Dial(at("/ws/frames", id, "n", "5", "code", "1000"), h))
		seen(t, id)
		if got, want := r.all(), []string{"open", "text 1"}; !slices.Equal(got, want) {
			t.Errorf("handler was told %q, want %q", got, want)
		}
	})
	t.Run("pagehide", func(t *testing.T) {
		id, r := newID(), newRecord()
		s := dial(t, at("/ws/echo", id), r)
		wait(t, r.opened, "open")
		undo := must(Listen(func(Signal, bool) {
			must(0, s.Send([]byte("last words")))
			s.Abandon(4001, "leaving")
		}))
		defer undo()
		fire(t, safejs.Global(), "pagehide", true)
		if got := readyState(s.ws); got != 2 {
			t.Errorf("readyState %d right after the event, want 2", got)
		}
		if got := seen(t, id); got != "close 4001 leaving" {
			t.Errorf("server saw %q", got)
		}
		if got, want := r.all(), []string{"open"}; !slices.Equal(got, want) {
			t.Errorf("handler was told %q, want %q", got, want)
		}
	})
	if got := runtime.NumGoroutine(); got != goroutines {
		t.Errorf("%d goroutines, want %d", got, goroutines)
	}
}
