package jsbridge

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/hack-pad/safejs"
)

// record is a handler that writes down what it is told.
type record struct {
	opened chan struct{}
	closed chan struct{}

	mu    sync.Mutex
	lines []string
}

func newRecord() *record {
	return &record{opened: make(chan struct{}), closed: make(chan struct{})}
}

func (r *record) add(line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, line)
}

func (r *record) all() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

func (r *record) handler() SocketHandler {
	return SocketHandler{
		Open: func() {
			r.add("open")
			close(r.opened)
		},
		Message: func(data []byte, binary bool) {
			if binary {
				r.add(fmt.Sprintf("binary of %d", len(data)))
			} else {
				r.add("text " + strings.TrimSpace(string(data)))
			}
		},
		Close: func(info CloseInfo) {
			r.add(fmt.Sprintf("close %d %q %t", info.Code, info.Reason, info.Clean))
			close(r.closed)
		},
	}
}

// dial opens a socket that r records.
func dial(t *testing.T, url string, r *record) *Socket {
	t.Helper()
	s, err := Dial(url, r.handler())
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { s.Abandon(4001, "test over") })
	return s
}

// expect waits for the end and compares all that r was told.
func (r *record) expect(t *testing.T, want ...string) {
	t.Helper()
	wait(t, r.closed, "the close")
	if got := r.all(); !slices.Equal(got, want) {
		t.Errorf("handler was told\n%q, want\n%q", got, want)
	}
}

// readyState of a socket: 0 connecting, 1 open, 2 closing, 3 closed.
func readyState(ws safejs.Value) int { return must(must(ws.Get("readyState")).Int()) }

func TestSocketReportsEndings(t *testing.T) {
	for _, test := range []struct {
		name string
		url  string
		want []string
	}{
		{"code and reason", at("/ws/frames", newID(), "code", "4401", "reason", "login expired"), []string{"open", `close 4401 "login expired" true`}},
		{"restart", at("/ws/frames", newID(), "code", "1012", "reason", "retry=1-2"), []string{"open", `close 1012 "retry=1-2" true`}},
		{"try later", at("/ws/frames", newID(), "code", "1013"), []string{"open", `close 1013 "" true`}},
		{"reason of 123 bytes", at("/ws/frames", newID(), "code", "4000", "reason", strings.Repeat("é", 61)+"x"), []string{"open", `close 4000 "` + strings.Repeat("é", 61) + `x" true`}},
		{"close frame without a code", at("/ws/frames", newID(), "code", "1005"), []string{"open", `close 1005 "" true`}},
		{"close frame of one byte", at("/ws/raw", newID(), "hex", "880103", "hold", ""), []string{"open", `close 1006 "" false`}},
		{"reason that is not UTF-8", at("/ws/raw", newID(), "hex", "880403e8ffff", "hold", ""), []string{"open", `close 1006 "" false`}},
		{"text that is not UTF-8", at("/ws/raw", newID(), "hex", "8101ff", "hold", ""), []string{"open", `close 1006 "" false`}},
		{"dropped without a close frame", at("/ws/raw", newID(), "hex", "810131"), []string{"open", "text 1", `close 1006 "" false`}},
		{"upgrade refused", at("/status", newID(), "code", "503"), []string{`close 1006 "" false`}},
		{"nobody listens", "ws://127.0.0.1:1/", []string{`close 1006 "" false`}},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRecord()
			dial(t, strings.Replace(test.url, "http://", "ws://", 1), r)
			r.expect(t, test.want...)
		})
	}
}

func TestSocketKeepsOrder(t *testing.T) {
	t.Run("of kinds and sizes", func(t *testing.T) {
		r := newRecord()
		dial(t, at("/ws/mixed", newID()), r)
		round := []string{"binary of 1048576", "binary of 10", "text text"}
		r.expect(t, slices.Concat([]string{"open"}, round, round, round, []string{`close 1000 "" true`})...)
	})
	t.Run("of many messages", func(t *testing.T) {
		r := newRecord()
		dial(t, at("/ws/frames", newID(), "n", "2000", "size", "150", "code", "1000"), r)
		want := []string{"open"}
		for i := range 2000 {
			want = append(want, fmt.Sprintf("text %d", i+1))
		}
		r.expect(t, append(want, `close 1000 "" true`)...)
	})
	t.Run("of what is sent", func(t *testing.T) {
		r := newRecord()
		s := dial(t, at("/ws/echo", newID()), r)
		wait(t, r.opened, "open")
		want := []string{"open"}
		for i := range 100 {
			if err := s.Send([]byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
			want = append(want, fmt.Sprintf("text %d", i))
		}
		// Closing does not overtake what was sent; the echoes of it may be cut off.
		s.Close(1000, "")
		wait(t, r.closed, "the close")
		got := r.all()
		if n := len(got) - 1; got[n] != `close 1000 "" true` || !slices.Equal(got[:n], want[:n]) {
			t.Errorf("got %q, want the beginning of %q and a clean close", got, want)
		}
	})
}

func TestSocketSend(t *testing.T) {
	id, r := newID(), newRecord()
	s := dial(t, at("/ws/swallow", id), r)
	if got := s.Send([]byte("early")); !errors.Is(got, ErrNotOpen) {
		t.Errorf("while connecting: %v, want %v", got, ErrNotOpen)
	}
	wait(t, r.opened, "open")
	if err := s.Send([]byte("a\xffb")); err == nil || !strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("text that is not UTF-8: %v, want an error that says so", err)
	}
	if got := s.Buffered(); got != 0 {
		t.Errorf("Buffered before anything was sent: %d", got)
	}
	if err := s.Send(make([]byte, 1<<16)); err != nil {
		t.Errorf("while open: %v", err)
	}
	if got := s.Buffered(); got != 1<<16 {
		t.Errorf("Buffered right after Send: %d, want %d", got, 1<<16)
	}
	// A browser drops without a word what is sent while it closes.
	s.Close(4001, "")
	if got := s.Send([]byte("late")); !errors.Is(got, ErrNotOpen) {
		t.Errorf("while closing: %v, want %v", got, ErrNotOpen)
	}
	ask(t, at("/release", id))
	wait(t, r.closed, "the close")
	if got := s.Send([]byte("too late")); !errors.Is(got, ErrNotOpen) {
		t.Errorf("when closed: %v, want %v", got, ErrNotOpen)
	}
}

func TestSocketCloseIsLegal(t *testing.T) {
	for _, test := range []struct {
		code   int
		reason string
		want   string
	}{
		{1000, "", "close 1000"},
		{3000, "first", "close 3000 first"},
		{4999, "last", "close 4999 last"},
		{1001, "leaving", "close 4001 leaving"},
		{1006, "", "close 4006"},
		{1009, "too big", "close 4009 too big"},
		{1015, "", "close 4015"},
		{0, "", "close 4000"},
		{-1, "", "close 4000"},
		{999, "", "close 4000"},
		{1016, "", "close 4000"},
		{2999, "", "close 4000"},
		{5000, "", "close 4000"},
		{70000, "", "close 4000"},
		{4001, strings.Repeat("x", 123), "close 4001 " + strings.Repeat("x", 123)},
		{4001, strings.Repeat("x", 124), "close 4001 " + strings.Repeat("x", 123)},
		{4001, strings.Repeat("é", 62), "close 4001 " + strings.Repeat("é", 61)},
		{4001, "x" + strings.Repeat("🙂", 31), "close 4001 x" + strings.Repeat("🙂", 30)},
		{4001, strings.Repeat("\xff.", 62), "close 4001 " + strings.Repeat("\uFFFD.", 30) + "\uFFFD"},
		{4001, "lone \xed\xa0\x80 surrogate", "close 4001 lone \uFFFD surrogate"},
	} {
		t.Run(fmt.Sprintf("%d with %d bytes", test.code, len(test.reason)), func(t *testing.T) {
			id, r := newID(), newRecord()
			s := dial(t, at("/ws/echo", id), r)
			wait(t, r.opened, "open")
			s.Close(test.code, test.reason)
			s.Close(1000, "a second close does nothing")
			if got := seen(t, id); got != test.want {
				t.Errorf("server saw %q, want %q", got, test.want)
			}
			wait(t, r.closed, "the close")
		})
	}
}

func TestSocketRefusesTooBig(t *testing.T) {
	id, r := newID(), newRecord()
	h := r.handler()
	h.MaxMessage = 1000
	s := must(Dial(at("/ws/echo", id), h))
	defer s.Abandon(4001, "")
	wait(t, r.opened, "open")
	for _, size := range []int{1000, 1001, 1} {
		must(0, s.Send(make([]byte, size)))
	}
	const reason = "message of 1001 bytes exceeds the limit of 1000"
	r.expect(t, "open", "text "+strings.Repeat("\x00", 1000), `close 4009 "`+reason+`" false`)
	if got, want := seen(t, id), "close 4009 "+reason; got != want {
		t.Errorf("server saw %q, want %q", got, want)
	}
}

func TestDialRefusesBadURLs(t *testing.T) {
	before := LiveFuncs()
	for _, bad := range []string{
		"", "http", "ftp://h/?token=SECRET", "ws://SECRET:SECRET@h:99999/p?token=SECRET", "wss://h/#SECRET", "ws://[/?SECRET",
		"javascript:1?SECRET", "ws://" + strings.Repeat("x", 1<<16) + ":x/?SECRET", "ws://\xff\xfe:x?SECRET",
	} {
		s, err := Dial(bad, SocketHandler{Close: func(CloseInfo) { t.Errorf("%.50q: Close was called", bad) }})
		if err == nil {
			// Newer browsers take a relative URL.
			s.Abandon(4001, "")
			if strings.Contains(bad, "SECRET") {
				t.Errorf("%.50q: no error", bad)
			}
			continue
		}
		if text := err.Error(); strings.Contains(text, "SECRET") || !strings.Contains(text, "SyntaxError") || len(text) > 500 {
			t.Errorf("%.50q: error %.600q, want a short SyntaxError without the secret", bad, text)
		}
	}
	if got := LiveFuncs(); got != before {
		t.Errorf("%d live Funcs, want %d", got, before)
	}
}

func TestDialWithoutWebSocket(t *testing.T) {
	page := must(safejs.Global().Get("WebSocket"))
	defer func() { must(0, safejs.Global().Set("WebSocket", page)) }()
	must(0, safejs.Global().Delete("WebSocket"))
	if s, err := Dial("ws://h/", SocketHandler{}); err == nil || s != nil {
		t.Errorf("got %v, %v, want an error", s, err)
	}
}

func TestDialLeavesThePageItsWebSocket(t *testing.T) {
	page := must(safejs.Global().Get("WebSocket"))
	r := newRecord()
	dial(t, at("/ws/echo", newID()), r)
	if now := must(safejs.Global().Get("WebSocket")); !now.Equal(page) {
		t.Error("right after Dial globalThis.WebSocket is not the page's")
	}
}

// TestDialWithinACallback guards the one wait in Dial: it must not need the event loop.
func TestDialWithinACallback(t *testing.T) {
	r := newRecord()
	var s *Socket
	f := must(NewFunc("test", func(safejs.Value, []safejs.Value) any {
		s = dial(t, at("/ws/frames", newID(), "n", "1", "code", "1000"), r)
		return "returned"
	}))
	defer f.Release()
	if got := must(must(f.Value().Invoke()).String()); got != "returned" || s == nil {
		t.Fatalf("the callback returned %q", got)
	}
	r.expect(t, "open", "text 1", `close 1000 "" true`)
}

// TestSocketSurvivesPanics guards the runtime: a handler's panic would end it.
func TestSocketSurvivesPanics(t *testing.T) {
	var reports []string
	OnPanic(func(e *PanicError) { reports = append(reports, e.Error()) })
	defer OnPanic(nil)
	closed := make(chan CloseInfo)
	s, err := Dial(at("/ws/frames", newID(), "n", "2", "code", "4401"), SocketHandler{
		Open:    func() { panic("in open") },
		Message: func(data []byte, _ bool) { _ = data[1] },
		Close:   func(info CloseInfo) { defer close(closed); panic(fmt.Errorf("code %d", info.Code)) },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Abandon(4001, "")
	wait(t, closed, "the close")
	runtime.Gosched()
	want := []string{
		"jsbridge: panic in socket open: in open",
		"jsbridge: panic in socket message: runtime error: index out of range [1] with length 1",
		"jsbridge: panic in socket message: runtime error: index out of range [1] with length 1",
		"jsbridge: panic in socket close: code 4401",
	}
	if !slices.Equal(reports, want) {
		t.Errorf("reported\n%q, want\n%q", reports, want)
	}
}

// A page may make the socket: it is open already, speaks of itself, and keeps to the
// limit on its own.
func TestSocketThatThePageMakes(t *testing.T) {
	id := newID()
	r := newRecord()
	h := r.handler()
	h.MaxMessage = 7
	var asked []string
	maker := must(safejs.FuncOf(func(_ safejs.Value, args []safejs.Value) any {
		asked = append(asked, must(args[0].String())+" "+fmt.Sprint(must(args[1].Int())))
		return must(eval(`(() => {
			const ws = new WebSocket("` + at("/ws/frames", id, "n", "3", "size", "20", "code", "1000") + `")
			ws.addEventListener("message", (event) => {
				if (event.isTrusted) event.stopImmediatePropagation()
			})
			ws.addEventListener("open", () => ws.dispatchEvent(new MessageEvent("message", { data: "longer than seven" })))
			return ws
		})()`))
	}))
	defer maker.Release()
	h.Make = maker.Value()
	s, err := Dial("wss://made.by/the-page", h)
	if err != nil {
		t.Fatalf("Dial: %v", err)
	}
	t.Cleanup(func() { s.Abandon(4001, "test over") })
	r.expect(t, "open", "text longer than seven", `close 1000 "" true`)
	if want := []string{"wss://made.by/the-page 7"}; !slices.Equal(asked, want) {
		t.Errorf("the page was asked %q, want %q", asked, want)
	}
}

func TestSocketThatThePageCannotMake(t *testing.T) {
	h := SocketHandler{Make: must(eval(`() => { throw new TypeError("no " + "socket") }`))}
	if _, err := Dial("wss://made.by/the-page?token=1", h); err == nil || strings.Contains(err.Error(), "token") {
		t.Errorf("Dial: %v", err)
	}
}
