package wire

import "slices"

// Arrival is one message of a server as the script of a page hands it to its hub. Of
// an event or events frame the payloads stay in the page.
type Arrival struct {
	// Text is a text message. With Frame it is the number that the page knows the
	// message by, as JSON text.
	Text []byte
	// Size is the length of the message, in characters, where Text is not the message.
	Size int
	// Binary: the message is not text, and nobody wants it.
	Binary bool
	// Frame is the frame without payloads, nil where Text is the message.
	Frame Frame
}

// maxKept bounds how many events a frame has of which the payloads stay in the page.
const maxKept = 1 << 20

// DecodeArrivals reads what has arrived, in order: an array of strings, which are
// messages; of numbers, the lengths of binary ones; and of arrays for those that stay
// in the page: their number, their length, the stream, the number of the first event,
// and how many there are. ok is false when it is nothing of that kind.
func DecodeArrivals(text []byte) (all []Arrival, ok bool) {
	elements, ok := array(text)
	if !ok {
		return nil, false
	}
	all = make([]Arrival, 0, len(elements))
	var blank []Raw // payloads of all frames
	for _, e := range elements {
		a := Arrival{}
		switch e[0] {
		case '"':
			a.Text = []byte(jsonText(e))
		case '[':
			a, blank, ok = keptArrival(e, blank)
		default:
			size, isSize := e.Uint()
			a, ok = Arrival{Binary: true, Size: int(size)}, isSize //nolint:gosec // a length
		}
		if !ok {
			return nil, false
		}
		all = append(all, a)
	}
	return all, true
}

// keptArrival reads an arrival whose payloads stay in the page; blank has room for as
// many as any frame has had yet.
func keptArrival(text Raw, blank []Raw) (a Arrival, room []Raw, ok bool) {
	parts, _ := array(text)
	if len(parts) != 5 {
		return a, blank, false
	}
	_, isNumber := parts[0].Uint()
	size, isSize := parts[1].Uint()
	stream, isText := parts[2].Text()
	from, isFrom := parts[3].Uint()
	n, isCount := parts[4].Uint()
	if !isNumber || !isSize || !isText || !isFrom || !isCount {
		return a, blank, false
	}
	if stream != "" && !ValidStream(stream) || from == 0 || n > maxKept || from+n > MaxSeq+1 {
		return a, blank, false
	}
	if uint64(len(blank)) < n {
		blank = make([]Raw, n)
	}
	f := Events{Stream: stream, From: from, Data: slices.Clip(blank[:n])}
	return Arrival{Text: parts[0], Size: int(size), Frame: f}, blank, true //nolint:gosec // a length
}

// array returns the elements of a text that is one array.
func array(text []byte) (elements []Raw, ok bool) {
	i := space(text, 0)
	if i >= len(text) || text[i] != '[' {
		return nil, false
	}
	elements, end := scanArray(text, i)
	return elements, end >= 0 && space(text, end) == len(text)
}
