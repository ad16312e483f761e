package jsbridge

import (
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/hack-pad/safejs"
)

// Func is a Go function that JavaScript can call. It stays alive until Release.
type Func struct {
	where string
	fn    func(this safejs.Value, args []safejs.Value) any
	js    safejs.Func
	once  sync.Once
}

// liveFuncs counts the Funcs that were made and not yet released.
var liveFuncs atomic.Int64

// LiveFuncs returns how many Funcs are not yet released, over the whole package.
// Tests watch it for leaks. The first Await makes one that stays.
func LiveFuncs() int { return int(liveFuncs.Load()) }

// NewFunc makes fn callable from JavaScript; where names it in the report of a
// panic. fn runs within JavaScript's call and must not wait (see the package
// comment). Its result goes through the conversions of [safejs.ValueOf]; after a
// panic it is undefined.
func NewFunc(where string, fn func(this safejs.Value, args []safejs.Value) any) (*Func, error) {
	f := &Func{where: where, fn: fn}
	js, err := safejs.FuncOf(f.call)
	if err != nil {
		return nil, failed("make a function for "+where, err)
	}
	f.js = js
	liveFuncs.Add(1)
	return f, nil
}

// Value returns the JavaScript function.
func (f *Func) Value() safejs.Value { return f.js.Value() }

// Release frees the function; JavaScript must not call it any more. It may be
// called from within the function, and more than once.
func (f *Func) Release() {
	f.once.Do(func() {
		f.js.Release()
		liveFuncs.Add(-1)
	})
}

func (f *Func) call(this safejs.Value, args []safejs.Value) any {
	defer recoverPanic(f.where)
	return f.fn(this, args)
}

// PanicError is a panic that a callback of this package's user raised.
type PanicError struct {
	// Where names the callback: "socket message".
	Where string
	// Value is what was passed to panic.
	Value any
	// Stack is the goroutine's stack, at most 8 KiB of it.
	Stack string
}

// Error returns where it happened and the panic's text, without the stack.
func (e *PanicError) Error() string {
	text := "a value without a text"
	switch v := e.Value.(type) {
	case error:
		text = v.Error()
	case string:
		text = v
	}
	return "jsbridge: panic in " + e.Where + ": " + text
}

// Unwrap returns the error that was passed to panic, if it was one.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

var panicHook atomic.Pointer[func(*PanicError)]

// OnPanic sets the function that panics of callbacks are reported to, instead of
// the browser's console; nil sets the console again. The function may run within
// JavaScript's call and must not wait.
func OnPanic(report func(*PanicError)) {
	if report == nil {
		panicHook.Store(nil)
		return
	}
	panicHook.Store(&report)
}

// recoverPanic, deferred, reports a panic and ends it.
func recoverPanic(where string) {
	if v := recover(); v != nil {
		reportPanic(where, v)
	}
}

func reportPanic(where string, v any) {
	stack := make([]byte, 8<<10)
	if err, ok := v.(error); ok {
		v = thrown(err) // the text of what safejs returns is read by getters, which may throw
	}
	e := &PanicError{Where: where, Value: v, Stack: string(stack[:runtime.Stack(stack, false)])}
	defer func() { _ = recover() }() // a hook that panics has nobody left to tell
	if hook := panicHook.Load(); hook != nil {
		(*hook)(e)
		return
	}
	if console, err := Get(safejs.Global(), "console"); err == nil {
		//nolint:errcheck // without a console there is nobody to tell
		console.Call("error", e.Error()+"\n"+e.Stack)
	}
}

// listener is one Func that listens for events on any number of targets.
type listener struct {
	fn   *Func
	undo []func()
	once sync.Once
}

// newListener makes a listener that listens for nothing yet.
func newListener(where string, fn func(event safejs.Value)) (*listener, error) {
	f, err := NewFunc(where, func(_ safejs.Value, args []safejs.Value) any {
		if len(args) > 0 {
			fn(args[0])
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &listener{fn: f}, nil
}

// listen adds the events of a target.
func (l *listener) listen(target safejs.Value, events ...string) error {
	for _, event := range events {
		if _, err := target.Call("addEventListener", event, l.fn.Value()); err != nil {
			return failed("listen for "+event, err)
		}
		l.undo = append(l.undo, func() {
			//nolint:errcheck // what cannot be removed any more will not call either
			target.Call("removeEventListener", event, l.fn.Value())
		})
	}
	return nil
}

// remove stops listening and releases the Func. Calling it twice is fine.
func (l *listener) remove() {
	l.once.Do(func() {
		for _, undo := range l.undo {
			undo()
		}
		l.fn.Release()
	})
}
