package wire

import "strconv"

// Error says what is wrong with a message: which frame, which field, which
// value. Value is left empty for fields that may hold a secret.
type Error struct {
	Frame   string // value of "t", empty when it is not known
	Field   string // empty when the message as a whole is at fault
	Value   string // the offending JSON text, cut to 40 bytes
	Problem string // what was expected
}

const maxShownValue = 40

func (e *Error) Error() string {
	s := "wire: "
	if e.Frame != "" {
		s += e.Frame + ": "
	}
	if e.Field != "" {
		s += e.Field + ": "
	}
	if e.Value != "" {
		s += strconv.Quote(e.Value) + ": "
	}
	return s + e.Problem
}

// fieldError is not inlined: a message that is wrong is rare.
//
//go:noinline
func fieldError(frame, field string, value []byte, problem string) error {
	e := &Error{Frame: frame, Field: field, Problem: problem}
	if field != "session" && field != "user" {
		e.Value = string(value[:min(len(value), maxShownValue)])
	}
	return e
}
