package main

import (
	"errors"
	"time"

	"github.com/hack-pad/safejs"

	"github.com/longwire/longwire/jsbridge"
)

// version is set by the build to that of the shim it belongs to.
var version = "dev"

func main() {
	if err := export(); err != nil {
		println("longwire: " + err.Error())
		return
	}
	select {} // the exports live as long as the page
}

// export hands the exports to the shim.
func export() error {
	openHub, err := jsbridge.NewFunc("open", func(_ safejs.Value, args []safejs.Value) any {
		return result(open(args))
	})
	if err != nil {
		return err
	}
	_, err = safejs.Global().Call("longwireReady", map[string]any{"version": version, "open": openHub.Value()})
	return err
}

// result is what open returns to JavaScript: the hub, or the text of an error.
func result(v any, err error) any {
	if err != nil {
		return err.Error()
	}
	return v
}

// open starts a hub.
func open(args []safejs.Value) (any, error) {
	if len(args) != 2 || args[0].Type() != safejs.TypeObject || args[1].Type() != safejs.TypeObject {
		return nil, errors.New("open takes an object of options and the page")
	}
	o, err := readOptions(args[0])
	if err != nil {
		return nil, err
	}
	p, err := newPage(args[1])
	if err != nil {
		return nil, err
	}
	d, err := newDriver(o, p)
	if err != nil {
		return nil, err
	}
	exports, err := d.exports()
	if err != nil {
		d.close()
		go d.run() // to its end
		return nil, err
	}
	go d.run()
	return exports, nil
}

// random is uniform in [0, 1). crypto seeds it, so that no two tabs or machines
// that start in the same moment draw the same waits.
func random() float64 {
	var b [8]byte
	if err := jsbridge.Random(b[:]); err != nil {
		// Without randomness every client would wait the same: spread by the clock.
		return float64(time.Now().UnixNano()%1000) / 1000
	}
	var n uint64
	for _, c := range b {
		n = n<<8 | uint64(c)
	}
	return float64(n>>11) / (1 << 53)
}
