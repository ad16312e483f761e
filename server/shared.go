package server

import (
	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// message is a WebSocket message with events of one stream, which many connections
// are written as it is.
type message struct {
	frame  []byte // the whole of it
	text   []byte // of the frame, without the header
	events int
}

// sharing is what a worker has encoded last. Connections that follow one stream mostly
// stand at one position, and are served one after the other.
type sharing struct {
	log  *stream.Log
	from uint64
	n    int
	made *message // nil: one connection was there, and perhaps no other will be
}

// message returns the events from, from+1, … that f has read as one message, or nil
// when they are not to be shared. o lends what it needs.
func (s *sharing) message(f *follow, o *output, from uint64, data [][]byte, batch bool) *message {
	t, log := f.topic, f.cursor.Log() // not that of the topic, which may have another by now
	switch {
	case t.isOwn() || !o.isEmpty() || len(data) == 0 || len(data) > 1 && !batch || len(data[0]) > wire.BatchBytes:
		return nil
	case s.log != log || s.from != from || s.n != len(data):
		*s = sharing{log: log, from: from, n: len(data)}
		return nil
	case s.made == nil:
		s.made = o.encode(t.name, from, data)
	}
	return s.made
}

// encode makes a message of its own.
func (o *output) encode(stream string, from uint64, data [][]byte) *message {
	size := maxHeader + 64 + len(stream)
	for _, d := range data {
		size += len(d) + 1
	}
	buf := make([]byte, maxHeader, size)
	if len(data) == 1 {
		buf = wire.Event{Seq: from, Stream: stream, Data: data[0]}.Append(buf)
	} else {
		buf = wire.Events{From: from, Stream: stream, Data: o.raws(data)}.Append(buf)
	}
	var header [maxHeader]byte
	h := appendHeader(header[:0], opText, len(buf)-maxHeader)
	start := maxHeader - len(h)
	copy(buf[start:], h)
	return &message{frame: buf[start:], text: buf[maxHeader:], events: len(data)}
}

// share makes m all there is in o, which must be empty.
func (o *output) share(m *message, array bool) {
	o.lone, o.array = m, array
	o.sent += uint64(m.events) //nolint:gosec // a count
}

// unshare makes room for more than the one message that is shared.
func (o *output) unshare() {
	if o.lone == nil {
		return
	}
	m := o.lone
	o.lone = nil
	o.begin(o.array)
	o.buf = append(o.buf, m.text...)
	o.held += m.events
}
