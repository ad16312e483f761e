package wire

import (
	"bytes"
	"unicode/utf8"
)

// Decode reads a message: one frame, or an array of frames. All are returned, or
// none and an *[Error]: a message is never acted on in part.
//
// The frames alias msg. A message may hold unknown fields and unknown types; it
// must be valid UTF-8, valid JSON and nest at most 512 deep. Decode does not
// bound the length of msg: the transport does, before it is in memory.
func Decode(msg []byte) ([]Frame, error) { return decode(msg, (*parsed).frame) }

// decode is Decode for a choice of frames.
func decode(msg []byte, build func(*parsed, []byte) Frame) ([]Frame, error) {
	if !utf8.Valid(msg) {
		return nil, &Error{Problem: "message is not valid UTF-8"}
	}
	i := space(msg, 0)
	if i >= len(msg) || msg[i] != '[' {
		f, err := decodeFrame(msg, build)
		if err != nil {
			return nil, err
		}
		return []Frame{f}, nil
	}
	texts, end := scanArray(msg, i)
	if end < 0 || space(msg, end) != len(msg) {
		return nil, &Error{Value: shown(msg), Problem: "message is not valid JSON"}
	}
	frames := make([]Frame, 0, len(texts))
	for _, text := range texts {
		f, err := decodeFrame(text, build)
		if err != nil {
			return nil, err
		}
		frames = append(frames, f)
	}
	return frames, nil
}

func shown(b []byte) string { return string(b[:min(len(b), maxShownValue)]) }

// field is one member of a frame, of a name that some frame type has.
type field struct {
	key   []byte
	value []byte
}

// parsed is a frame taken apart: type, and the fields that were present.
type parsed struct {
	t      string
	fields []field
	data   []Raw // the elements of the field data, where they were split on the way
	err    error // the first thing found wrong, by the typed getters
}

// fewFields is how many fields the frequent frames have at most.
const fewFields = 6

func decodeFrame(text []byte, build func(*parsed, []byte) Frame) (Frame, error) {
	var e parsed
	if err := e.read(text); err != nil {
		return nil, err
	}
	f := build(&e, text)
	if e.err != nil {
		return nil, e.err
	}
	return f, nil
}

// read takes the frame text apart.
func (e *parsed) read(text []byte) error {
	i := space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return &Error{Value: shown(text), Problem: "frame is not a JSON object"}
	}
	end := e.split(text[i:])
	if end < 0 || space(text, i+end) != len(text) {
		return &Error{Frame: e.t, Value: shown(text), Problem: "frame is not valid JSON"}
	}
	if e.t == "" {
		return &Error{Field: "t", Value: shown(text), Problem: "missing, or not a string"}
	}
	return nil
}

// split notes the members of the object that text starts with and returns the
// index behind it, or -1. Of a name that occurs twice the last value counts, as
// for JSON.parse.
func (e *parsed) split(text []byte) int {
	e.fields = make([]field, 0, fewFields)
	return eachMember(text, 0, func(key []byte, start int) int {
		var end int
		if string(key) == "data" {
			e.data = nil // of an earlier one
		}
		if start < len(text) && text[start] == '[' && string(key) == "data" && e.t == tEvents {
			// Split while checking: a batch is then scanned once, not twice.
			e.data, end = scanArray(text, start)
		} else {
			end = scanValue(text, start)
		}
		if end < 0 || !isKnown(key) {
			return end
		}
		f := field{key: key, value: text[start:end:end]}
		if string(key) == "t" && text[start] == '"' {
			e.t = jsonText(f.value)
		}
		e.set(f)
		return end
	})
}

func (e *parsed) set(f field) {
	for i := range e.fields {
		if bytes.Equal(e.fields[i].key, f.key) {
			e.fields[i] = f
			return
		}
	}
	e.fields = append(e.fields, f)
}

// isKnown reports whether some frame type has a field of this name.
func isKnown(key []byte) bool {
	switch string(key) {
	case "t", "seq", "stream", "data", "from", "id", "body", "v", "session", "gen", "user",
		"after", "epoch", "subs", "batch", "away", "n", "first", "resync", "heartbeat",
		"maxFrame", "window", "spread", "dedupe", "error", "retry", "state", "snapshot",
		"reason", "result", "code", "next", "stale", "within", "ms", "url", "why",
		"expiry":
		return true
	// Those of the bus.
	case "own", "room", "age", "attempt", "notBefore", "live", "visible", "known", "ask", "g", "h", "cause", "hint", "resume",
		"beat", "asleep", "since", "nextRetry", "interrupted", "tabs", "heard", "quiet", "totals", "closed",
		"what", "text", "outcome", "rtt":
		return true
	}
	return false
}

// jsonText returns the text of a JSON string that scanString has accepted.
func jsonText(quoted []byte) string {
	if bytes.IndexByte(quoted, '\\') >= 0 {
		return unquote(quoted)
	}
	return string(quoted[1 : len(quoted)-1])
}
