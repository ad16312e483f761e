package server

import (
	"encoding/binary"
	"sync"

	"github.com/longwire/longwire/wire"
)

// WebSocket opcodes, RFC 6455 section 5.2.
const (
	opText  = 0x1
	opClose = 0x8
	opPing  = 0x9
	opPong  = 0xa
)

// output is what the writer hands to the socket in one go: whole WebSocket frames,
// of which the last can be a large one that many connections share and that is
// written from where it is.
type output struct {
	buf       []byte
	tail, end []byte   // shared, and what follows it
	lone      *message // shared; all there is, if it is not nil
	array     bool     // lone may become part of an array
	pieces    [3][]byte

	more  bool // there is more to write after it
	pings bool // it has a ping

	start, n int // of the message being built, and its frames so far

	data   [][]byte   // scratch for events
	raw    []wire.Raw // the same
	sent   uint64     // events
	frames uint64     // WebSocket messages

	held    int   // events in the message being built
	batches []int // events in each message that has any
}

// outputs are taken only for the time of a write: an idle connection holds none.
var outputs = sync.Pool{New: func() any { return new(output) }}

// release returns o to the pool, unless it grew large.
func (o *output) release() {
	if cap(o.buf) > 4*wire.BatchBytes {
		return
	}
	clear(o.data[:cap(o.data)])
	clear(o.raw[:cap(o.raw)])
	*o = output{buf: o.buf[:0], data: o.data[:0], raw: o.raw[:0], batches: o.batches[:0]}
	outputs.Put(o)
}

// isEmpty reports whether there is nothing to write.
func (o *output) isEmpty() bool { return len(o.buf) == 0 && o.lone == nil }

// holdsMessage reports whether there is a message, finished or not.
func (o *output) holdsMessage() bool { return o.frames > 0 || o.n > 0 || o.lone != nil }

// maxHeader is the room for the header of a server's frame, which has no mask.
const maxHeader = 10

// isFull reports whether o should be written before more is added.
func (o *output) isFull() bool { return o.tail != nil || o.left() <= 0 }

func (o *output) left() int {
	if o.lone != nil {
		return wire.BatchBytes - len(o.lone.frame)
	}
	return wire.BatchBytes - len(o.buf)
}

// begin makes room for another frame: in the message being built if it may be an
// array, else in a new one.
func (o *output) begin(array bool) {
	o.unshare()
	if o.n > 0 && array {
		o.buf = append(o.buf, ',')
	} else {
		o.finish()
		o.start = len(o.buf)
		var room [maxHeader + 1]byte // and an opening bracket, if it comes to that
		o.buf = append(o.buf, room[:]...)
	}
	o.n++
}

// finish ends the message being built, if there is one, and puts its header in
// place.
func (o *output) finish() {
	if o.lone != nil {
		o.batches = append(o.batches, o.lone.events)
		o.frames++
	}
	if o.held > 0 {
		o.batches = append(o.batches, o.held)
		o.held = 0
	}
	if o.n == 0 {
		return
	}
	body := o.start + maxHeader + 1
	if o.n > 1 {
		body--
		o.buf[body] = '['
		o.buf = append(o.buf, ']')
	}
	var header [maxHeader]byte
	h := appendHeader(header[:0], opText, len(o.buf)-body)
	n := copy(o.buf[o.start:], h)
	n += copy(o.buf[o.start+n:], o.buf[body:])
	o.buf = o.buf[:o.start+n]
	o.n = 0
	o.frames++
}

// frame adds a frame.
func (o *output) frame(f wire.Frame, array bool) {
	o.begin(array)
	o.buf = f.Append(o.buf)
}

// text adds an encoded frame.
func (o *output) text(frame []byte, array bool) {
	if len(frame) > wire.BatchBytes {
		o.shared("", nil, frame, nil, array)
		return
	}
	o.begin(array)
	o.buf = append(o.buf, frame...)
}

// control adds a WebSocket control frame.
func (o *output) control(opcode byte, payload []byte) {
	o.unshare()
	o.finish()
	o.buf = appendHeader(o.buf, opcode, len(payload))
	o.buf = append(o.buf, payload...)
}

// shared adds the frame prefix + body + suffix, without copying body when that is
// large, and announces it when it is larger still. Nothing can be added after a
// large one.
func (o *output) shared(stream string, prefix, body, suffix []byte, array bool) {
	size := len(prefix) + len(body) + len(suffix)
	if size <= wire.BatchBytes {
		o.begin(array)
		o.buf = append(append(append(o.buf, prefix...), body...), suffix...)
		return
	}
	o.unshare()
	if size > wire.LargeFrame {
		o.frame(wire.Heartbeat{Next: int64(size), Stream: stream}, false)
	}
	o.finish()
	o.buf = append(appendHeader(o.buf, opText, size), prefix...)
	o.tail, o.end = body, suffix
	o.frames++
}

// events adds the events from, from+1, …: as one frame to a client that reads
// batches, else each as its own message.
func (o *output) events(stream string, from uint64, data [][]byte, batch bool) {
	o.sent += uint64(len(data))
	switch {
	case len(data) == 1 && len(data[0]) > wire.BatchBytes:
		// An event without data is its frame up to the data, and a brace.
		empty := wire.Event{Seq: from, Stream: stream, Data: wire.Raw{}}.Append(nil)
		o.shared(stream, empty[:len(empty)-1], data[0], empty[len(empty)-1:], batch)
		o.held++
	case len(data) > 1 && batch:
		o.frame(wire.Events{From: from, Stream: stream, Data: o.raws(data)}, batch)
		o.held += len(data)
	default:
		for i, d := range data {
			o.frame(wire.Event{Seq: from + uint64(i), Stream: stream, Data: d}, batch) //nolint:gosec // an index
			o.held++
		}
	}
}

// raws returns data as a frame takes it, until the next call.
func (o *output) raws(data [][]byte) []wire.Raw {
	o.raw = o.raw[:0]
	for _, d := range data {
		o.raw = append(o.raw, d)
	}
	return o.raw
}

// parts returns what to write, once it is finished. None is empty: each is a call of the
// kernel.
func (o *output) parts() [][]byte {
	if o.lone != nil {
		return append(o.pieces[:0], o.lone.frame)
	}
	parts := append(o.pieces[:0], o.buf)
	for _, p := range [...][]byte{o.tail, o.end} {
		if len(p) > 0 {
			parts = append(parts, p)
		}
	}
	return parts
}

// size returns how many bytes that is.
func (o *output) size() (n int) {
	for _, p := range o.parts() {
		n += len(p)
	}
	return n
}

// appendHeader appends the header of an unfragmented, unmasked frame.
func appendHeader(dst []byte, opcode byte, n int) []byte {
	const fin = 0x80
	dst = append(dst, fin|opcode)
	switch {
	case n < 126:
		return append(dst, byte(n))
	case n < 1<<16:
		return binary.BigEndian.AppendUint16(append(dst, 126), uint16(n))
	default:
		return binary.BigEndian.AppendUint64(append(dst, 127), uint64(n)) //nolint:gosec // a length
	}
}
