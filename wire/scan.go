package wire

import "bytes"

// maxDepth bounds the nesting of a message, so that a hostile one costs neither
// stack nor memory. The levels are kept as bits, not as calls.
const maxDepth = 512

// space returns the index of the first byte at or after i that is not JSON white
// space; it may be len(b).
func space(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// scanValue returns the index behind the JSON value that starts at or after
// b[i], or -1 when there is no valid one (RFC 8259). It never recurses.
func scanValue(b []byte, i int) int {
	var objects [maxDepth / 64]uint64 // bit d: level d is an object
	depth := 0
	for {
		// Here a value must start.
		i = space(b, i)
		if i >= len(b) {
			return -1
		}
		opened := false
		switch c := b[i]; {
		case c == '"':
			i = scanString(b, i)
		case c == '-' || '0' <= c && c <= '9':
			i = scanNumber(b, i)
		case c == 't':
			i = scanLiteral(b, i, "true")
		case c == 'f':
			i = scanLiteral(b, i, "false")
		case c == 'n':
			i = scanLiteral(b, i, "null")
		case c == '{' || c == '[':
			if depth == maxDepth {
				return -1
			}
			bit := uint64(1) << (depth % 64)
			objects[depth/64] &^= bit
			if c == '{' {
				objects[depth/64] |= bit
			}
			depth++
			opened = true
			i++
		default:
			return -1
		}
		if i < 0 {
			return -1
		}
		// Here a value has ended, or a container was just opened.
		for {
			if depth == 0 {
				return i
			}
			i = space(b, i)
			if i >= len(b) {
				return -1
			}
			isObject := objects[(depth-1)/64]&(1<<((depth-1)%64)) != 0
			if isObject && b[i] == '}' || !isObject && b[i] == ']' {
				depth--
				opened = false
				i++
				continue
			}
			if !opened {
				if b[i] != ',' {
					return -1
				}
				i = space(b, i+1)
			}
			if isObject {
				if i = scanKey(b, i); i < 0 {
					return -1
				}
			}
			break
		}
	}
}

// scanKey returns the index behind `"key" :`, or -1.
func scanKey(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	if i = scanString(b, i); i < 0 {
		return -1
	}
	i = space(b, i)
	if i >= len(b) || b[i] != ':' {
		return -1
	}
	return i + 1
}

// scanString returns the index behind the string whose opening quote is b[i],
// or -1. It does not look at UTF-8: Decode checks the message as a whole.
func scanString(b []byte, i int) int {
	i++
	for {
		// Four at a time: compiled to wasm, a branch costs more than what it saves.
		for i+4 <= len(b) {
			c := b[i : i+4 : i+4]
			if special[c[0]]|special[c[1]]|special[c[2]]|special[c[3]] != 0 {
				break
			}
			i += 4
		}
		for i < len(b) && special[b[i]] == 0 {
			i++
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		case i+1 >= len(b):
			return -1
		case b[i+1] == 'u':
			if i+6 > len(b) || hex4(b[i+2:i+6]) < 0 {
				return -1
			}
			i += 6
		case bytes.IndexByte([]byte(`"\/bfnrt`), b[i+1]) >= 0:
			i += 2
		default:
			return -1
		}
	}
}

// special is 1 for what does not stand for itself in a string: the control
// characters, the quote and the backslash.
var special = func() (table [256]byte) {
	for c := range ' ' {
		table[c] = 1
	}
	table['"'], table['\\'] = 1, 1
	return table
}()

func scanLiteral(b []byte, i int, word string) int {
	if len(b)-i < len(word) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

// scanNumber returns the index behind the number that starts at b[i], or -1.
func scanNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	switch {
	case i >= len(b):
		return -1
	case b[i] == '0':
		i++
	default:
		if i = scanDigits(b, i); i < 0 {
			return -1
		}
	}
	if i < len(b) && b[i] == '.' {
		if i = scanDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return scanDigits(b, i)
	}
	return i
}

// scanDigits returns the index behind one or more digits, or -1.
func scanDigits(b []byte, i int) int {
	start := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == start {
		return -1
	}
	return i
}

// hex4 returns the value of four hexadecimal digits, or -1.
func hex4(b []byte) rune {
	var r rune
	for _, c := range b {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return -1
		}
		r = r<<4 | rune(c)
	}
	return r
}

// manyElements is how many elements of an array are made room for at once.
const manyElements = 64

// scanArray returns the elements of the array whose opening bracket is b[i], and
// the index behind it, or -1.
func scanArray(b []byte, i int) ([]Raw, int) {
	var elements []Raw
	i = space(b, i+1)
	if i < len(b) && b[i] == ']' {
		return nil, i + 1
	}
	for {
		i = space(b, i)
		end := scanValue(b, i)
		if end < 0 {
			return nil, -1
		}
		if elements == nil {
			// The others are about as long, but nobody has promised that.
			elements = make([]Raw, 0, min((len(b)-i)/(end-i+1)+1, manyElements))
		}
		elements = append(elements, Raw(b[i:end:end]))
		i = space(b, end)
		if i >= len(b) {
			return nil, -1
		}
		switch b[i] {
		case ',':
			i++
		case ']':
			return elements, i + 1
		default:
			return nil, -1
		}
	}
}

// eachMember calls fn with the key and the start of each member of the object
// whose opening brace is b[i]; fn returns the index behind the value, or -1. It
// returns the index behind the object, or -1.
func eachMember(b []byte, i int, fn func(key []byte, start int) int) int {
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		i = space(b, i)
		colon := scanKey(b, i)
		if colon < 0 {
			return -1
		}
		key := b[i+1 : bytes.LastIndexByte(b[:colon], '"')]
		if bytes.IndexByte(key, '\\') >= 0 {
			key = []byte(unquote(b[i : bytes.LastIndexByte(b[:colon], '"')+1]))
		}
		i = fn(key, space(b, colon))
		if i < 0 {
			return -1
		}
		i = space(b, i)
		if i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i++
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}
