// Command program does what needs the tables of functions: it panics and recovers
// in all ways, has deep stacks scanned and moved, and asks for names. What it prints
// must be the same before and after Slim.
package main

import (
	"errors"
	"fmt"
	"os"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"time"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "die" {
		die()
	}
	recovers()
	faults()
	stacks()
	names()
}

// recovers prints which deferred calls get hold of a panic: only those that the
// panic itself runs, not what these call. Some calls are inlined.
func recovers() {
	try := func(what string, panics func()) {
		defer func() { fmt.Println(what+":", "outer", recover()) }()
		panics()
	}
	try("a function", func() { defer catch("a function"); panic(1) })
	try("a closure", func() { defer func() { fmt.Println("closure", recover()) }(); panic(2) })
	try("a helper's helper", func() { defer helper("helper"); panic(3) })
	try("a method through its wrapper", func() { var c catcher = value{"wrapper"}; defer c.catch(); panic(4) })
	try("an inlined method through its wrapper", func() { var c catcher = inlined{"inlined"}; defer c.catch(); panic(5) })
	try("a pointer's wrapper", func() { c := &value{"pointer"}; f := c.catch; defer f(); panic(6) })
	try("a pointer's inlined method", func() { c := &inlined{"pointer"}; f := (*inlined).catch; defer f(c); panic(7) })
	try("recover itself", func() { defer recover(); panic(8) })
	try("in a loop", func() {
		for i := range 3 {
			defer helper(fmt.Sprint("loop", i))
		}
		panic(9)
	})
	try("a panic in a deferred call", func() {
		defer catch("second")
		defer func() { panic(11) }()
		panic(10)
	})
	try("a generic function", func() { defer catchAny([]string{"generic"}); panic(12) })
	try("embedded", func() { var c catcher = struct{ inlined }{inlined{"embedded"}}; defer c.catch(); panic(13) })
	try("embedded pointer", func() { var c catcher = struct{ *value }{&value{"embedded"}}; defer c.catch(); panic(14) })
	done := make(chan bool)
	go func() {
		defer close(done)
		defer helper("goexit")
		runtime.Goexit()
	}()
	<-done
}

//go:noinline
func catch(who string) { fmt.Println("caught by", who, recover()) }

func helper(who string) { catch(who) } // inlined, and one call too far from the panic

func catchAny[T any](who []T) { catch(fmt.Sprint(who)) }

type catcher interface{ catch() }

type value struct{ who string }

//go:noinline
func (v value) catch() { fmt.Println("caught by", v.who, recover()) }

type inlined struct{ who string }

func (i inlined) catch() { catch(i.who) }

// faults are found by the runtime, some from the names of functions.
func faults() {
	var none *value
	var m map[string]int
	var list []int
	var v any = "text"
	zero := len(list)
	for _, fault := range []func(){
		func() { none.who = "x" },
		func() { m["x"] = 1 },
		func() { fmt.Println(list[zero+3]) },
		func() { fmt.Println(list[:zero+2]) },
		func() { fmt.Println(v.(int)) },
		func() { fmt.Println(v.(error)) },
		func() { fmt.Println(1 / zero) },
		func() { fmt.Println([4]int(list)) },
		func() { var c catcher = none; c.catch() },
		func() { panic(errors.New("an error")) },
		func() { reflect.ValueOf(1).Len() },
		func() { reflect.ValueOf(none).Elem().Field(0) },
		func() { var c chan int; close(c) },
		func() { panic(nil) },
	} {
		func() {
			defer func() { fmt.Println("fault:", recover()) }()
			fault()
		}()
	}
}

// stacks grow, move and are scanned while they hold the only pointers to things.
func stacks() {
	debug.SetGCPercent(10)
	var wg sync.WaitGroup
	sums := make([]int, 8)
	for i := range sums {
		wg.Go(func() { sums[i] = *deep(300+i, new(int)) })
	}
	wg.Wait()
	fmt.Println("sums:", sums)
	called := reflect.MakeFunc(reflect.TypeFor[func(int, *int) *int](), func(args []reflect.Value) []reflect.Value {
		runtime.GC()
		return []reflect.Value{reflect.ValueOf(deep(int(args[0].Int()), args[1].Interface().(*int)))}
	}).Interface().(func(int, *int) *int)
	fmt.Println("reflected:", *called(50, new(int)))
	method := reflect.ValueOf(counter{7}).Method(0).Interface().(func(*int) int)
	fmt.Println("method:", method(new(int)))
}

type counter struct{ n int }

func (c counter) Add(p *int) int {
	runtime.GC()
	*p += c.n
	return *deep(20, p)
}

//go:noinline
func deep(n int, p *int) *int {
	kept := &[4]int{n, n + 1}
	var large [32]int
	large[n%32] = n
	words := map[int]string{n: strings.Repeat("x", n%7)}
	defer func() { *p += kept[0] + len(words[n]) + large[n%32] }()
	switch {
	case n == 0:
		runtime.GC()
		return p
	case n%50 == 0:
		runtime.Gosched()
		<-time.After(time.Microsecond)
	}
	return deep(n-1, p)
}

// names are asked for at every depth. How many frames runtime.Callers itself takes
// depends on whether the inlined ones are known, so the list begins below it.
func names() {
	outer(func() {
		pcs := make([]uintptr, 20)
		below := false
		for _, pc := range pcs[:runtime.Callers(0, pcs)] {
			name := runtime.FuncForPC(runtime.FuncForPC(pc - 1).Entry()).Name()
			if below = below || name == "main.generic[...]"; below {
				fmt.Println("name:", name)
			}
		}
	})
	fmt.Println("name:", runtime.FuncForPC(reflect.ValueOf(catch).Pointer()).Name())
}

//go:noinline
func outer(f func()) { generic([]string{"x"}, f) }

//go:noinline
func generic[T any](_ []T, f func()) { f() }

// die ends the program with a panic in a goroutine.
func die() {
	go explode(&value{"x"}, 3)
	select {}
}

//go:noinline
func explode(v *value, n int) {
	if n == 0 {
		panic("boom")
	}
	explode(v, n-1)
	v.who = "y"
}
