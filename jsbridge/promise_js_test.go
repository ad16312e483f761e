package jsbridge

import (
	"context"
	"errors"
	"runtime"
	"testing"

	"github.com/hack-pad/safejs"
)

// eval runs a JavaScript expression.
func eval(expression string) (safejs.Value, error) {
	return safejs.Global().Call("eval", "("+expression+")")
}

func TestAwaitValues(t *testing.T) {
	for _, test := range []struct{ name, promise, want string }{
		{"promise", `Promise.resolve("v")`, "v"},
		{"promise that takes a while", `new Promise(r => setTimeout(() => r("late"), 10))`, "late"},
		{"promise of a promise", `Promise.resolve(new Promise(r => r("inner")))`, "inner"},
		{"thenable", `{then(ok) { ok("t") }}`, "t"},
		{"thenable that settles three times", `{then(ok, no) { ok("first"); ok("second"); no("third"); throw 4 }}`, "first"},
		{"no promise", `"plain"`, "plain"},
		{"undefined", `undefined`, "<undefined>"},
		{"null", `null`, "<null>"},
		{"number", `7`, "<number: 7>"},
		{"cyclic object", `(o => o.self = o)({})`, "<object>"},
		{"promise whose own then throws", `Object.defineProperty(Promise.resolve(1), "then", {get() { throw new TypeError("when") }})`, "<number: 1>"},
		{"then that is no function", `{then: 5}`, "<object>"},
	} {
		t.Run(test.name, func(t *testing.T) {
			value, err := Await(within(t), must(eval(test.promise)))
			if err != nil {
				t.Fatal(err)
			}
			if got := must(value.String()); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

func TestAwaitRejections(t *testing.T) {
	for _, test := range []struct{ name, promise, errName, message string }{
		{"Error", `Promise.reject(new RangeError("too far"))`, "RangeError", "too far"},
		{"DOMException", `Promise.reject(new DOMException("stopped", "AbortError"))`, "AbortError", "stopped"},
		{"own name", `Promise.reject({name: "Mine", message: "m"})`, "Mine", "m"},
		{"string", `Promise.reject("just so")`, "", "just so"},
		{"string in angles", `Promise.reject("<b>")`, "", "<b>"},
		{"undefined", `Promise.reject()`, "", "undefined"},
		{"null", `Promise.reject(null)`, "", "null"},
		{"number", `Promise.reject(5)`, "", "number: 5"},
		{"symbol", `Promise.reject(Symbol("s"))`, "", "symbol"},
		{"cyclic object", `Promise.reject((o => o.self = o)({}))`, "", "<object>"},
		{"object without a prototype", `Promise.reject(Object.create(null))`, "", "<object>"},
		{"getters that throw", `Promise.reject({get name() { throw 1 }, get message() { throw 2 }})`, "", "<object>"},
		{"proxy that throws", `Promise.reject(new Proxy({}, {get() { throw 3 }}))`, "", "<object>"},
		{"name that is no string", `Promise.reject({name: {}, message: 5})`, "", "<object>"},
		{"then that throws", `{then() { throw new TypeError("thrown") }}`, "TypeError", "thrown"},
		{"then whose getter throws", `{get then() { throw new TypeError("got") }}`, "TypeError", "got"},
		{"promise whose constructor throws", `Object.defineProperty(Promise.resolve(1), "constructor", {get() { throw new TypeError("who") }})`, "TypeError", "who"},
	} {
		t.Run(test.name, func(t *testing.T) {
			value, err := Await(within(t), must(eval(test.promise)))
			jsErr, ok := errors.AsType[*Error](err)
			if !ok {
				t.Fatalf("got %v, %v, want an *Error", value, err)
			}
			if jsErr.Name != test.errName || jsErr.Message != test.message {
				t.Errorf("got %q, %q, want %q, %q", jsErr.Name, jsErr.Message, test.errName, test.message)
			}
		})
	}
}

func TestAwaitEndsWithItsContext(t *testing.T) {
	must(Await(t.Context(), must(eval("1")))) // makes the Func that stays
	funcs := LiveFuncs()
	must(eval(`globalThis.settleLate = []`))
	cause := errors.New("cause")
	for range 10 {
		ctx, cancel := context.WithCancelCause(t.Context())
		results := make(chan error, 3)
		for _, promise := range []string{
			`new Promise(() => {})`,
			`new Promise(r => settleLate.push(r))`,
			`new Promise((_, r) => settleLate.push(r))`,
		} {
			p := must(eval(promise))
			go func() {
				_, err := Await(ctx, p)
				results <- err
			}()
		}
		runtime.Gosched()
		cancel(cause)
		for range 3 {
			if err := wait(t, results, "Await"); !errors.Is(err, cause) {
				t.Errorf("error %v, want the cause", err)
			}
		}
	}
	// Settled too late they do nothing; a rejection is not unhandled either.
	must(eval(`settleLate.forEach(f => f(new Error("late")))`))
	must(Await(within(t), must(eval(`new Promise(r => setTimeout(r, 10))`))))
	if got := LiveFuncs(); got != funcs {
		t.Errorf("%d live Funcs, want %d", got, funcs)
	}
	pending.mu.Lock()
	defer pending.mu.Unlock()
	if got := len(pending.by); got != 0 {
		t.Errorf("%d promises still waited for", got)
	}
}

func TestPromise(t *testing.T) {
	must(Await(t.Context(), must(eval("1")))) // makes the Func that stays
	funcs := LiveFuncs()
	var reports []string
	OnPanic(func(e *PanicError) { reports = append(reports, e.Error()) })
	defer OnPanic(nil)
	work := func(value safejs.Value, err error) safejs.Value {
		return must(Promise(t.Context(), func(context.Context) (safejs.Value, error) { return value, err }))
	}
	t.Run("fulfilled", func(t *testing.T) {
		if got := must(must(await(t, work(safejs.ValueOf("v")))).String()); got != "v" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("fulfilled by a promise", func(t *testing.T) {
		if got := must(must(await(t, work(eval(`Promise.resolve("inner")`)))).String()); got != "inner" {
			t.Errorf("got %q", got)
		}
	})
	t.Run("rejected with a Go error", func(t *testing.T) {
		_, err := await(t, work(safejs.Undefined(), errors.New("in Go")))
		if got, want := err.Error(), "Error: in Go"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("rejected with a JavaScript error, which stays itself", func(t *testing.T) {
		mine := must(eval(`Object.assign(new RangeError("mine"), {code: "x"})`))
		_, err := await(t, work(safejs.Undefined(), failed("try", errorOf(mine))))
		if jsErr, ok := errors.AsType[*Error](err); !ok || !jsErr.Value.Equal(mine) {
			t.Errorf("got %v, want the same error", err)
		}
	})
	t.Run("rejected with an error whose URL was withheld", func(t *testing.T) {
		_, err := await(t, work(safejs.Undefined(), urlError("probe", "http://h/?SECRET", errorOf(must(eval(`new TypeError("SECRET")`))))))
		if got, want := err.Error(), `Error: jsbridge: probe "http://h/": TypeError: (message withheld: it may repeat the URL)`; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("rejected by a panic", func(t *testing.T) {
		p := must(Promise(t.Context(), func(context.Context) (safejs.Value, error) { panic("oh") }))
		if _, err := await(t, p); err == nil {
			t.Error("no error")
		}
		if len(reports) != 1 || reports[0] != "jsbridge: panic in promise: oh" {
			t.Errorf("reported %q", reports)
		}
	})
	t.Run("rejected and ignored", func(t *testing.T) {
		work(safejs.Undefined(), errors.New("nobody listens"))
		// An unhandled rejection is told after the task: TestMain would hear of it.
		must(Await(within(t), must(eval(`new Promise(r => setTimeout(r, 10))`))))
	})
	t.Run("that waits for the event loop", func(t *testing.T) {
		p := must(Promise(t.Context(), func(ctx context.Context) (safejs.Value, error) {
			return Await(ctx, must(eval(`new Promise(r => setTimeout(() => r("slept"), 10))`)))
		}))
		if got := must(must(await(t, p)).String()); got != "slept" {
			t.Errorf("got %q", got)
		}
	})
	if got := LiveFuncs(); got != funcs {
		t.Errorf("%d live Funcs, want %d", got, funcs)
	}
}

// TestFuncReleasedOnce guards the counter that the leak tests trust.
func TestFuncReleasedOnce(t *testing.T) {
	before := LiveFuncs()
	f := must(NewFunc("test", func(_ safejs.Value, args []safejs.Value) any { return len(args) }))
	if got := LiveFuncs(); got != before+1 {
		t.Errorf("%d live Funcs, want %d", got, before+1)
	}
	if got := must(must(f.Value().Invoke(1, 2, 3)).Int()); got != 3 {
		t.Errorf("got %d, want 3", got)
	}
	f.Release()
	f.Release()
	if got := LiveFuncs(); got != before {
		t.Errorf("%d live Funcs, want %d", got, before)
	}
}

// A getter that throws in safejs.Value.Get would leave this test hanging for good.
func TestGetOfWhatAPageHandsIn(t *testing.T) {
	for object, want := range map[string]string{
		`{p: "v"}`:                             "v",
		`{}`:                                   "<undefined>",
		`{get p() { throw new TypeError(1) }}`: `jsbridge: get p: TypeError: 1`,
		`{get p() { throw undefined }}`:        `jsbridge: get p: JavaScript: undefined`,
		`new Proxy({}, {get() { throw {get message() { throw 1 }} }})`: `jsbridge: get p: JavaScript: <object>`,
		`undefined`: `jsbridge: get p: TypeError: Reflect.get called on non-object`,
		`null`:      `jsbridge: get p: TypeError: Reflect.get called on non-object`,
		`"string"`:  `jsbridge: get p: TypeError: Reflect.get called on non-object`,
	} {
		value, err := Get(must(eval(object)), "p")
		got := must(value.String())
		if err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q, want %q", object, got, want)
		}
	}
}
