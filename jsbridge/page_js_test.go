package jsbridge

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/hack-pad/safejs"
)

// fire dispatches an event of the page, and reports whether anybody could hear it.
func fire(t *testing.T, target safejs.Value, kind string, persisted bool) {
	t.Helper()
	event := must(must(safejs.Global().Get("Event")).New(kind))
	must(0, event.Set("persisted", persisted))
	must(target.Call("dispatchEvent", event))
}

func TestListen(t *testing.T) {
	window, document := safejs.Global(), must(safejs.Global().Get("document"))
	all := func() {
		fire(t, window, "offline", false)
		fire(t, window, "online", false)
		fire(t, window, "beforeunload", false)
		fire(t, window, "pagehide", true)
		must(eval(`Object.defineProperty(document, "visibilityState", {value: "hidden", configurable: true})`))
		fire(t, document, "visibilitychange", false)
		fire(t, document, "freeze", false)
		fire(t, document, "resume", false)
		must(eval(`delete document.visibilityState`))
		fire(t, document, "visibilitychange", false)
		fire(t, window, "pageshow", true)
		fire(t, window, "pageshow", false)
	}
	type heard struct {
		signal    Signal
		persisted bool
	}
	everything := []heard{
		{Offline, false},
		{Online, false},
		{BeforeUnload, false},
		{PageHide, true},
		{Hidden, false},
		{Freeze, false},
		{Resume, false},
		{Visible, false},
		{PageShow, true},
		{PageShow, false},
	}
	before := LiveFuncs()
	for _, test := range []struct {
		name             string
		window, document safejs.Value
		want             []heard
	}{
		{"in a page", window, document, everything},
		{"in a worker", window, safejs.Undefined(), slices.DeleteFunc(slices.Clone(everything), func(h heard) bool {
			return slices.Contains([]Signal{Hidden, Visible, Freeze, Resume}, h.signal)
		})},
	} {
		t.Run(test.name, func(t *testing.T) {
			var got []heard
			undo, err := listenOn(test.window, test.document, func(s Signal, persisted bool) { got = append(got, heard{s, persisted}) })
			if err != nil {
				t.Fatal(err)
			}
			all()
			undo()
			all()
			undo()
			if !slices.Equal(got, test.want) {
				t.Errorf("heard %v, want %v", got, test.want)
			}
		})
	}
	t.Run("undone from within", func(t *testing.T) {
		n := 0
		var undo func()
		undo = must(Listen(func(Signal, bool) { n++; undo() }))
		all()
		if n != 1 {
			t.Errorf("heard %d signals, want 1", n)
		}
	})
	t.Run("where there are no events", func(t *testing.T) {
		if undo, err := listenOn(must(eval("{}")), safejs.Undefined(), nil); err == nil || undo != nil {
			t.Errorf("error %v, want one", err)
		}
	})
	t.Run("a panic reaches the hook and not the browser", func(t *testing.T) {
		var report *PanicError
		OnPanic(func(e *PanicError) { report = e })
		defer OnPanic(nil)
		undo := must(Listen(func(Signal, bool) { panic("in a signal") }))
		defer undo()
		fire(t, window, "online", false)
		if report == nil || report.Where != "signal" || report.Value != "in a signal" || !strings.Contains(report.Stack, "TestListen") {
			t.Errorf("reported %+v", report)
		}
	})
	if got := LiveFuncs(); got != before {
		t.Errorf("%d live Funcs, want %d", got, before)
	}
}

func TestCurrent(t *testing.T) {
	if online, visible := Current(); !online || !visible {
		t.Errorf("online %t, visible %t, want both", online, visible)
	}
	must(eval(`Object.defineProperty(document, "visibilityState", {value: "hidden", configurable: true})`))
	must(eval(`Object.defineProperty(navigator, "onLine", {value: false, configurable: true})`))
	defer func() { must(eval(`delete document.visibilityState && delete navigator.onLine`)) }()
	if online, visible := Current(); online || visible {
		t.Errorf("online %t, visible %t, want neither", online, visible)
	}
}

func TestProbe(t *testing.T) {
	for _, test := range []struct {
		name string
		args []string
		want Response
	}{
		{"fine", []string{"code", "204", "h", "Longwire-Probe=1"}, Response{Status: 204}},
		{"login expired", []string{"code", "401"}, Response{Status: 401}},
		{"overloaded", []string{"code", "503", "h", "Retry-After=7"}, Response{Status: 503}},
		{"redirect to a login", []string{"code", "302", "h", "Location=/never"}, Response{Redirected: true}},
		{"a body without an end", []string{"code", "200", "endless", ""}, Response{Status: 200}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Probe(within(t), at("/status", newID(), test.args...))
			if err != nil {
				t.Fatal(err)
			}
			if got.Status != test.want.Status || got.Redirected != test.want.Redirected {
				t.Errorf("status %d, redirected %t, want %d, %t", got.Status, got.Redirected, test.want.Status, test.want.Redirected)
			}
			for name, want := range map[string]string{"longwire-probe": "1", "Retry-After": "7"} {
				if !slices.ContainsFunc(test.args, func(s string) bool { return strings.HasPrefix(strings.ToLower(s), strings.ToLower(name)) }) {
					want = ""
				}
				if got := got.Header(name); got != want {
					t.Errorf("header %s: %q, want %q", name, got, want)
				}
			}
			if got := got.Header("no header name\n"); got != "" {
				t.Errorf("a header that cannot be: %q", got)
			}
		})
	}
	t.Run("never answered", func(t *testing.T) {
		id := newID()
		ctx, cancel := context.WithCancelCause(within(t))
		defer cancel(nil)
		probed := make(chan error, 1)
		go func() {
			_, err := Probe(ctx, at("/never", id))
			probed <- err
		}()
		if got := seen(t, id); got != "asked" {
			t.Fatalf("server saw %q", got)
		}
		cancel(context.DeadlineExceeded)
		if err := wait(t, probed, "Probe"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error %v, want %v", err, context.DeadlineExceeded)
		}
		if got := seen(t, id); got != "gone" {
			t.Errorf("server saw %q, want the request cancelled", got)
		}
	})
	for _, bad := range []string{"http://127.0.0.1:1/?token=SECRET", "http://SECRET:SECRET@h/", "nope://h/?SECRET", "http://[/#SECRET"} {
		t.Run("no answer from "+bad, func(t *testing.T) {
			_, err := Probe(within(t), bad)
			if jsErr, ok := errors.AsType[*Error](err); !ok || jsErr.Name != "TypeError" {
				t.Errorf("error %v, want a TypeError", err)
			}
			if strings.Contains(err.Error(), "SECRET") {
				t.Errorf("error %q tells the secret", err)
			}
		})
	}
	t.Run("without a secret the browser's words stay", func(t *testing.T) {
		_, err := Probe(within(t), "http://127.0.0.1:1/probe")
		if got, want := err.Error(), `jsbridge: probe "http://127.0.0.1:1/probe": TypeError: Failed to fetch`; got != want {
			t.Errorf("error %q, want %q", got, want)
		}
	})
}

func TestChannel(t *testing.T) {
	before := LiveFuncs()
	got := make(chan string, 200)
	name := "jsbridge test " + newID()
	a := must(OpenChannel(name, func(text string) { t.Errorf("the sender hears %q", text) }))
	b := must(OpenChannel(name, func(text string) { got <- text }))
	other := must(OpenChannel(name+" other", func(text string) { t.Errorf("another name hears %q", text) }))
	texts := []string{"one", "", "zwei 🙂", strings.Repeat("x", 1<<20), `{"t":"hub"}`}
	for _, text := range texts {
		// What is no text is skipped, and does no harm.
		must(a.js.Call("postMessage", 5))
		must(a.js.Call("postMessage", safejs.Undefined()))
		must(0, a.Post(text))
	}
	for _, want := range texts {
		if text := wait(t, got, "a message"); text != want {
			t.Errorf("got %.50q, want %.50q", text, want)
		}
	}
	must(0, a.Post("on its way"))
	b.Close()
	b.Close()
	if err := b.Post("closed"); err == nil {
		t.Error("Post after Close: no error")
	}
	a.Close()
	other.Close()
	if n := len(got); n != 0 {
		t.Errorf("%d messages after Close", n)
	}
	if funcs := LiveFuncs(); funcs != before {
		t.Errorf("%d live Funcs, want %d", funcs, before)
	}
}

func TestChannelAbsent(t *testing.T) {
	page := must(safejs.Global().Get("BroadcastChannel"))
	defer func() { must(0, safejs.Global().Set("BroadcastChannel", page)) }()
	must(0, safejs.Global().Delete("BroadcastChannel"))
	if c, err := OpenChannel("x", nil); err == nil || c != nil {
		t.Errorf("error %v, want one", err)
	}
}

func TestRandom(t *testing.T) {
	must(0, Random(nil))
	buf := make([]byte, 3*maxRandom+1) // more than one call gives
	must(0, Random(buf))
	for i := 0; i+32 <= len(buf); i += maxRandom - 16 {
		if bytes.Equal(buf[i:i+32], make([]byte, 32)) {
			t.Errorf("32 zeros at %d", i)
		}
	}
	again := make([]byte, 32)
	must(0, Random(again))
	if bytes.Equal(again, buf[:32]) {
		t.Error("the same bytes twice")
	}
}
