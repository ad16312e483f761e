package main

import (
	"time"

	"github.com/hack-pad/safejs"

	"github.com/longwire/longwire/jsbridge"
)

// exports returns what the tab holds of the hub, and sets release. The methods only
// post, and keep the order.
func (d *driver) exports() (map[string]any, error) {
	var funcs []*jsbridge.Func
	d.release = func() {
		for _, f := range funcs {
			f.Release()
		}
	}
	exports := make(map[string]any)
	for name, fn := range map[string]func(args []safejs.Value){
		"frame":    d.frame,
		"close":    func([]safejs.Value) { d.close() },
		"handOver": func([]safejs.Value) { d.leave(d.h.HandOver) },
		"resign":   func([]safejs.Value) { d.leave(d.h.Resign) },
		"tick":     func([]safejs.Value) { d.post(d.tick) },
		"others":   d.others,
	} {
		f, err := jsbridge.NewFunc("hub."+name, func(_ safejs.Value, args []safejs.Value) any {
			fn(args)
			return nil
		})
		if err != nil {
			d.release()
			return nil, err
		}
		funcs = append(funcs, f)
		exports[name] = f.Value()
	}
	return exports, nil
}

// frame takes a frame of the tab.
func (d *driver) frame(args []safejs.Value) {
	if len(args) == 1 && args[0].Type() == safejs.TypeString {
		text, _ := args[0].String()
		d.post(func() { d.do(d.h.FromOwn(time.Now(), []byte(text))) })
	}
}

// others takes how many other tabs there are, negative for not known.
func (d *driver) others(args []safejs.Value) {
	if len(args) == 1 && args[0].Type() == safejs.TypeNumber {
		n, _ := args[0].Int()
		d.post(func() { d.do(d.h.Expect(time.Now(), n)) })
	}
}
