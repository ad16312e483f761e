package jsbridge

import (
	"context"
	"errors"
	"sync"

	"github.com/hack-pad/safejs"
)

// Await waits until p is settled and returns its value. A rejection is an *Error;
// p may also be a thenable, or no promise at all, which is its own value.
//
// When ctx ends first its cause is returned; what becomes of p then is ignored, a
// rejection too, and nothing is held for a p that never settles. Await waits for
// the event loop: it must not be called within a callback.
func Await(ctx context.Context, p safejs.Value) (safejs.Value, error) {
	settle, err := settleFunc()
	if err != nil {
		return safejs.Undefined(), err
	}
	id, settled := pending.add()
	defer pending.remove(id)
	if err := subscribe(p, settle.Value(), id); err != nil {
		return safejs.Undefined(), thrown(err)
	}
	select {
	case s := <-settled:
		if s.rejected {
			return safejs.Undefined(), errorOf(s.value)
		}
		return s.value, nil
	case <-ctx.Done():
		return safejs.Undefined(), context.Cause(ctx)
	}
}

// subscribe has settle called with id, whether p was rejected, and what with.
// Bound functions are JavaScript's own, so a promise that is never settled holds
// no Func.
func subscribe(p, settle safejs.Value, id int) error {
	fulfilled, err := settle.Call("bind", safejs.Null(), id, false)
	if err != nil {
		return err
	}
	rejected, err := settle.Call("bind", safejs.Null(), id, true)
	if err != nil {
		return err
	}
	constructor, err := Get(safejs.Global(), "Promise")
	if err != nil {
		return err
	}
	promise, err := constructor.Call("resolve", p) // a getter that throws rejects this one
	if err != nil {
		return err
	}
	// As await does it, whatever the promise has for a then of its own.
	prototype, err := Get(constructor, "prototype")
	if err != nil {
		return err
	}
	then, err := Get(prototype, "then")
	if err != nil {
		return err
	}
	_, err = then.Call("call", promise, fulfilled, rejected)
	return err
}

// settled is what became of a promise.
type settled struct {
	value    safejs.Value
	rejected bool
}

// awaits are the promises that somebody waits for, by a number of ours.
type awaits struct {
	mu   sync.Mutex
	last int
	by   map[int]chan<- settled
}

var pending = awaits{by: map[int]chan<- settled{}}

func (a *awaits) add() (id int, c <-chan settled) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last++
	ch := make(chan settled, 1)
	a.by[a.last] = ch
	return a.last, ch
}

// remove forgets id and returns who waited for it, if anybody still did.
func (a *awaits) remove(id int) chan<- settled {
	a.mu.Lock()
	defer a.mu.Unlock()
	ch := a.by[id]
	delete(a.by, id)
	return ch
}

// settleFunc makes the one Func that all awaited promises call.
var settleFunc = sync.OnceValues(func() (*Func, error) {
	return NewFunc("promise", func(_ safejs.Value, args []safejs.Value) any {
		id, err := args[0].Int()
		if err != nil {
			return nil
		}
		rejected, err := args[1].Bool()
		if err != nil {
			return nil
		}
		s := settled{value: safejs.Undefined(), rejected: rejected}
		if len(args) > 2 {
			s.value = args[2]
		}
		if c := pending.remove(id); c != nil {
			c <- s
		}
		return nil
	})
})

// Promise runs fn with ctx on a goroutine of its own and returns a JavaScript
// promise of its result. A value that is a promise itself is followed.
//
// An error rejects it: an *Error with its own Value, any other with a new
// JavaScript Error of the same text; so does a panic, which is reported too. A
// page that ignores the promise is not told of an unhandled rejection.
func Promise(ctx context.Context, fn func(context.Context) (safejs.Value, error)) (safejs.Value, error) {
	constructor, err := Get(safejs.Global(), "Promise")
	if err != nil {
		return safejs.Undefined(), err
	}
	var resolve, reject safejs.Value
	executor, err := NewFunc("promise executor", func(_ safejs.Value, args []safejs.Value) any {
		resolve, reject = args[0], args[1]
		return nil
	})
	if err != nil {
		return safejs.Undefined(), err
	}
	defer executor.Release() // it runs within the constructor, and never again
	promise, err := constructor.New(executor.Value())
	if err != nil {
		return safejs.Undefined(), failed("make a promise", err)
	}
	if err := ignoreRejection(promise); err != nil {
		return safejs.Undefined(), failed("make a promise", err)
	}
	go func() {
		value, err := result(ctx, fn)
		if err != nil {
			_, err = reject.Invoke(rejection(err))
		} else {
			_, err = resolve.Invoke(value)
		}
		if err != nil {
			reportPanic("promise", thrown(err))
		}
	}()
	return promise, nil
}

// result calls fn; err starts as what it is after a panic.
func result(ctx context.Context, fn func(context.Context) (safejs.Value, error)) (value safejs.Value, err error) {
	err = errors.New("jsbridge: panic in a promise")
	defer recoverPanic("promise")
	return fn(ctx)
}

// ignoreRejection gives a promise a handler that does nothing, so that nobody is
// told that it has none. Function.prototype is a function that does nothing.
func ignoreRejection(promise safejs.Value) error {
	function, err := Get(safejs.Global(), "Function")
	if err != nil {
		return err
	}
	nothing, err := Get(function, "prototype")
	if err != nil {
		return err
	}
	_, err = promise.Call("catch", nothing)
	return err
}

// rejection returns the JavaScript value that err rejects with.
func rejection(err error) safejs.Value {
	if jsErr, ok := errors.AsType[*Error](err); ok && !jsErr.Value.IsUndefined() {
		return jsErr.Value
	}
	constructor, ok := global("Error")
	if !ok {
		return safejs.Undefined()
	}
	value, jsErr := constructor.New(err.Error())
	if jsErr != nil {
		return safejs.Undefined()
	}
	return value
}
