package fmt_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	standin "github.com/longwire/longwire/tools/webbuild/stub/fmt"
)

type code int

func (code) String() string { return "a code" }

type status int

// verbose formats itself, as safejs's errors do; ours does so for the stand-in.
type (
	verbose struct{ error }
	ours    struct{ error }
)

func (v verbose) Format(f fmt.State, verb rune)  { format(f, f.Flag('+'), verb, v.Error()) }
func (o ours) Format(f standin.State, verb rune) { format(f, f.Flag('+'), verb, o.Error()) }

func format(w io.Writer, plus bool, verb rune, text string) {
	_, _ = fmt.Fprintf(w, "%c, %t: %s", verb, plus, text)
}

func TestTextsAreThoseOfFmt(t *testing.T) {
	err := errors.New(`an "error"`)
	for _, tc := range []struct {
		format string
		args   []any
	}{
		{"no verb", nil},
		{"100%% of %s", []any{"it"}},
		{"%v %v %v", []any{"text", err, nil}},
		{"%s %s", []any{"text", err}},
		{"%q %q %q", []any{"a \"text\"\n", err, code(1)}},
		{"%v %d %s", []any{code(7), code(7), code(7)}},
		{"%v %d", []any{status(-7), status(8)}},
		{"%d %d %d %v", []any{int64(-1), uint16(2), uint8(3), uintptr(4)}},
		{"%v %v", []any{true, false}},
		{"failed: %w", []any{err}},
		{"%w: %v", []any{err, io.EOF}},
		{"%w", []any{verbose{err}}},
		{"%v, %+v, %s, %q", []any{verbose{err}, verbose{err}, verbose{err}, verbose{err}}},
		{"%+v", []any{err}},
		{"%+v\n%s", []any{err, code(1)}},
		{"%s and %w", []any{nil, nil}},
		{"ends in %", nil},
		{"%v %v", []any{"one"}},
		{"Gr\u00fc\u00dfe %s", []any{"\u4f60\u597d"}},
	} {
		want := fmt.Errorf(tc.format, tc.args...)
		for i, v := range tc.args {
			if v, ok := v.(verbose); ok {
				tc.args[i] = ours(v)
			}
		}
		got := standin.Errorf(tc.format, tc.args...)
		if tc.format == "ends in %" {
			want = errors.New(tc.format) // fmt complains of it
		}
		if got.Error() != want.Error() || errors.Is(got, err) != errors.Is(want, err) || (errors.Unwrap(got) == nil) != (errors.Unwrap(want) == nil) {
			t.Errorf("%q: got %q around %v, want %q around %v", tc.format, got, errors.Unwrap(got), want, errors.Unwrap(want))
		}
		if text := standin.Sprintf(tc.format, tc.args...); text != got.Error() {
			t.Errorf("%q: Sprintf gives %q, Errorf %q", tc.format, text, got)
		}
		var b bytes.Buffer
		if n, err := standin.Fprintf(&b, tc.format, tc.args...); b.String() != got.Error() || n != b.Len() || err != nil {
			t.Errorf("%q: Fprintf wrote %q, %d bytes, error %v; Errorf gives %q", tc.format, &b, n, err, got)
		}
	}
	var b bytes.Buffer
	if n, err := standin.Fprint(&b, "100%"); b.String() != "100%" || n != 4 || err != nil {
		t.Errorf("Fprint wrote %q, %d bytes, error %v", &b, n, err)
	}
}

func TestOtherValuesGiveTheirType(t *testing.T) {
	if got := standin.Sprintf("%v %+v", []int{1}, struct{ A int }{1}); got != "([]int) (struct { A int })" {
		t.Errorf("got %q", got)
	}
}
