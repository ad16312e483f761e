// Package fmt stands in for fmt in the wasm, where only the libraries for WebSocket
// and JavaScript use it, for the texts of their errors. It gives the same texts as
// fmt for what they ask of it: the verbs %v, %+v, %s, %q and %d without width or
// precision, and one %w; operands that are errors, Stringers, Formatters, texts,
// bools and whole numbers. For others it says their type: without fmt's way to print
// any value, much of reflect, os and io/fs stay out.
package fmt

import (
	"errors"
	"io"
	"reflect"
	"strconv"
)

// State is what a Formatter writes to.
type State interface {
	Write(b []byte) (n int, err error)
	Width() (wid int, ok bool)
	Precision() (prec int, ok bool)
	Flag(c int) bool
}

// Formatter formats itself.
type Formatter interface {
	Format(f State, verb rune)
}

// Stringer is anything with a text.
type Stringer interface {
	String() string
}

// Errorf returns the text as an error, which wraps the operand of %w.
func Errorf(format string, a ...any) error {
	p := printer{}
	p.printf(format, a)
	if p.wrapped == nil {
		return errors.New(string(p.text))
	}
	return &wrapError{text: string(p.text), err: p.wrapped}
}

// Sprintf returns the text.
func Sprintf(format string, a ...any) string {
	p := printer{}
	p.printf(format, a)
	return string(p.text)
}

// Fprintf writes the text.
func Fprintf(w io.Writer, format string, a ...any) (n int, err error) {
	p := printer{}
	p.printf(format, a)
	return w.Write(p.text)
}

// Fprint writes one text. The original puts spaces between some operands, so this
// takes no more.
func Fprint(w io.Writer, text string) (n int, err error) { return io.WriteString(w, text) }

type wrapError struct {
	text string
	err  error
}

func (e *wrapError) Error() string { return e.text }
func (e *wrapError) Unwrap() error { return e.err }

// printer is the State of one call.
type printer struct {
	text    []byte
	plus    bool
	wrapped error
}

func (p *printer) Write(b []byte) (n int, err error) {
	p.text = append(p.text, b...)
	return len(b), nil
}
func (p *printer) Width() (wid int, ok bool)      { return 0, false }
func (p *printer) Precision() (prec int, ok bool) { return 0, false }
func (p *printer) Flag(c int) bool                { return c == '+' && p.plus }

func (p *printer) printf(format string, a []any) {
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			p.text = append(p.text, format[i])
			continue
		}
		i++
		if p.plus = format[i] == '+'; p.plus && i+1 < len(format) {
			i++
		}
		switch verb := format[i]; {
		case verb == '%':
			p.text = append(p.text, '%')
		case len(a) == 0:
			p.text = append(p.text, "%!"+string(verb)+"(MISSING)"...)
		default:
			p.print(verb, a[0])
			a = a[1:]
		}
	}
}

func (p *printer) print(verb byte, v any) {
	if v == nil && verb != 'v' {
		p.text = append(p.text, "%!"+string(verb)+"(<nil>)"...)
		return
	}
	if verb == 'w' {
		p.wrapped, _ = v.(error)
		verb = 'v'
	}
	if verb != 'd' {
		switch v := v.(type) {
		case Formatter:
			v.Format(p, rune(verb))
			return
		case error:
			p.string(verb, v.Error())
			return
		case Stringer:
			p.string(verb, v.String())
			return
		}
	}
	switch r := reflect.ValueOf(v); r.Kind() { //nolint:exhaustive // the default says so of the others
	case reflect.String:
		p.string(verb, r.String())
	case reflect.Bool:
		p.text = strconv.AppendBool(p.text, r.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		p.text = strconv.AppendInt(p.text, r.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		p.text = strconv.AppendUint(p.text, r.Uint(), 10)
	case reflect.Invalid:
		p.text = append(p.text, "<nil>"...)
	default:
		p.text = append(p.text, "("+r.Type().String()+")"...)
	}
}

func (p *printer) string(verb byte, s string) {
	if verb == 'q' {
		p.text = strconv.AppendQuote(p.text, s)
		return
	}
	p.text = append(p.text, s...)
}
