package jsbridge

import (
	"errors"
	"strconv"
	"strings"
	"syscall/js"

	"github.com/hack-pad/safejs"
)

// Error is what JavaScript threw, or rejected a promise with.
//
// Name and Message are those of an Error or a DOMException ("AbortError",
// "TypeError"), so tell kinds apart by Name. Anything else that was thrown has no
// Name and its text as Message ("undefined", "<object>").
type Error struct {
	Name    string
	Message string
	// Value is the thrown value itself.
	Value safejs.Value
}

// Error returns the name and the message.
func (e *Error) Error() string {
	switch {
	case e.Name == "":
		return "JavaScript: " + e.Message
	case e.Message == "":
		return e.Name
	}
	return e.Name + ": " + e.Message
}

// thrown turns an error of safejs into an *Error where JavaScript threw it.
func thrown(err error) error {
	//nolint:forbidigo // safejs hides what was thrown behind a private type around js.Error
	if jsErr, ok := errors.AsType[js.Error](err); ok {
		return errorOf(safejs.Safe(jsErr.Value))
	}
	return err
}

// errorOf describes a thrown value. It never fails: the value may be undefined, a
// number, a cycle or an object whose getters throw.
func errorOf(value safejs.Value) *Error {
	e := &Error{Value: value}
	if kind := value.Type(); kind == safejs.TypeObject || kind == safejs.TypeFunction {
		e.Name = textOf(value, "name")
		e.Message = textOf(value, "message")
		if e.Name != "" || e.Message != "" {
			return e
		}
	}
	text, err := value.String()
	if err != nil {
		text = "a value without a text"
	}
	// syscall/js writes "<undefined>" and "<number: 5>" for what is no string.
	if kind := value.Type(); kind != safejs.TypeString && kind != safejs.TypeObject && kind != safejs.TypeFunction {
		text = strings.TrimSuffix(strings.TrimPrefix(text, "<"), ">")
	}
	e.Message = text
	return e
}

// redact cuts from url what may be secret: the user name and password, the query
// and the fragment.
func redact(url string) string {
	if i := strings.IndexAny(url, "?#"); i >= 0 {
		url = url[:i]
	}
	scheme, rest, ok := strings.Cut(url, "://")
	if !ok {
		scheme, rest = "", url
	} else {
		scheme += "://"
	}
	authority, path := rest, ""
	if i := strings.IndexAny(rest, `/\`); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		authority = authority[i+1:]
	}
	url = scheme + authority + path
	if len(url) > maxShownURL {
		url = strings.ToValidUTF8(url[:maxShownURL], "") + "…"
	}
	return url
}

// maxShownURL is how many bytes of a URL an error repeats.
const maxShownURL = 200

// urlError is err, met in what was tried with url, without url's secrets. Browsers
// repeat the URL in their messages, normalised, so beside a secret only the name of
// what they threw stays.
func urlError(what, url string, err error) error {
	shown := redact(url)
	if jsErr, ok := errors.AsType[*Error](err); ok && shown != url {
		err = &Error{Name: jsErr.Name, Message: "(message withheld: it may repeat the URL)"}
	}
	return &opError{op: what + " " + strconv.Quote(shown), err: err}
}

// opError says what was tried when err came; fmt would weigh on the wasm build.
type opError struct {
	op  string
	err error
}

func (e *opError) Error() string { return "jsbridge: " + e.op + ": " + e.err.Error() }
func (e *opError) Unwrap() error { return e.err }

// failed wraps err, thrown or not, with what was tried; nil stays nil.
func failed(op string, err error) error {
	if err == nil {
		return nil
	}
	return &opError{op: op, err: thrown(err)}
}
