package jsbridge

import (
	"sync"

	"github.com/hack-pad/safejs"
)

// Get returns a property of value, undefined if it has none. It fails if value is
// no object, or the property's getter throws.
//
// Use it instead of [safejs.Value.Get] for every object that a page hands in: there
// a getter that throws unwinds the Go runtime, which never finishes what it was in,
// and nothing can recover that. The same goes for Set, Index, Length and Delete of
// such an object, and for Call where the method itself comes from a getter; what a
// function throws that is called, or constructs, is caught.
func Get(value safejs.Value, property string) (safejs.Value, error) {
	reflect, err := reflection()
	if err != nil {
		return safejs.Undefined(), err
	}
	p, err := reflect.Call("get", value, property)
	return p, failed("get "+property, err)
}

// reflection is JavaScript's Reflect.
var reflection = sync.OnceValues(func() (safejs.Value, error) {
	return safejs.Global().Get("Reflect")
})

// stringOf returns a property of value; ok is false if that is no string, or throws.
func stringOf(value safejs.Value, property string) (text string, ok bool) {
	p, err := Get(value, property)
	if err != nil || p.Type() != safejs.TypeString {
		return "", false
	}
	text, err = p.String()
	return text, err == nil
}

// textOf is stringOf for which nothing and "" are the same.
func textOf(value safejs.Value, property string) string {
	text, _ := stringOf(value, property)
	return text
}

// isTrue returns whether a property of value is true, and not merely truthy.
func isTrue(value safejs.Value, property string) bool {
	p, err := Get(value, property)
	if err != nil {
		return false
	}
	b, err := p.Bool()
	return err == nil && b
}

// numberOf returns a property of value that is a number.
func numberOf(value safejs.Value, property string) (int, error) {
	p, err := Get(value, property)
	if err != nil {
		return 0, err
	}
	return p.Int()
}

// global returns what the page calls name, and whether that can be called.
func global(name string) (value safejs.Value, callable bool) {
	value, err := Get(safejs.Global(), name)
	return value, err == nil && value.Type() == safejs.TypeFunction
}
