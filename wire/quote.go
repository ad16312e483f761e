package wire

import (
	"unicode/utf16"
	"unicode/utf8"
)

// unquote returns the text of a JSON string that scanString has accepted. As in
// encoding/json, half a surrogate pair becomes U+FFFD.
func unquote(quoted []byte) string {
	b := quoted[1 : len(quoted)-1]
	out := make([]byte, 0, len(b))
	for i := 0; i < len(b); {
		if b[i] != '\\' {
			out = append(out, b[i])
			i++
			continue
		}
		switch c := b[i+1]; c {
		case 'b':
			out = append(out, '\b')
		case 'f':
			out = append(out, '\f')
		case 'n':
			out = append(out, '\n')
		case 'r':
			out = append(out, '\r')
		case 't':
			out = append(out, '\t')
		case 'u':
			r := hex4(b[i+2 : i+6])
			i += 4
			if utf16.IsSurrogate(r) {
				low := rune(-1)
				if i+8 <= len(b) && b[i+2] == '\\' && b[i+3] == 'u' {
					low = hex4(b[i+4 : i+8])
				}
				if r = utf16.DecodeRune(r, low); r != utf8.RuneError {
					i += 6
				}
			}
			out = utf8.AppendRune(out, r)
		default: // one of " \ /
			out = append(out, c)
		}
		i += 2
	}
	return string(out)
}

// AppendString appends s as a JSON string. What is not valid UTF-8 becomes
// U+FFFD.
func AppendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			dst = append(dst, '\\', byte(r))
		case r < ' ':
			dst = append(dst, '\\', 'u', '0', '0', hex[r>>4], hex[r&15])
		default:
			dst = utf8.AppendRune(dst, r)
		}
	}
	return append(dst, '"')
}
