package wire

import "unicode/utf8"

// Valid reports whether text is one JSON value in valid UTF-8, nested at most 512
// deep, and nothing else.
func Valid(text []byte) bool {
	end := scanValue(text, 0)
	return end >= 0 && space(text, end) == len(text) && utf8.Valid(text)
}

// Member returns the member of the JSON object text by its name, the last one if
// there are several; ok is false when text is no valid object or has none.
func Member(text []byte, name string) (value Raw, ok bool) {
	start := space(text, 0)
	if start >= len(text) || text[start] != '{' {
		return nil, false
	}
	end := eachMember(text, start, func(key []byte, at int) int {
		end := scanValue(text, at)
		if end >= 0 && string(key) == name {
			value, ok = Raw(text[at:end:end]), true
		}
		return end
	})
	if end < 0 || space(text, end) != len(text) {
		return nil, false
	}
	return value, ok
}

// Uint reads a JSON integer from 0 to MaxSeq.
func (r Raw) Uint() (n uint64, ok bool) {
	for _, c := range r {
		if c < '0' || c > '9' || n > MaxSeq/10 {
			return 0, false
		}
		n = n*10 + uint64(c-'0')
	}
	return n, len(r) > 0 && n <= MaxSeq
}

// Text reads a JSON string.
func (r Raw) Text() (s string, ok bool) {
	if len(r) == 0 || r[0] != '"' || scanString(r, 0) != len(r) {
		return "", false
	}
	return jsonText(r), true
}
