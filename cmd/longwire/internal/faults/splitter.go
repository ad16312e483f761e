package faults

import "encoding/binary"

// The opcodes of RFC 6455 section 5.2 that are told apart here.
const (
	opContinuation = 0
	opClose        = 8
)

// A splitter follows the frames in one direction of a WebSocket connection
// (RFC 6455 section 5.2), so that whole messages can be taken out of the byte
// stream. It is fed the bytes in any pieces and believes what it reads: on a
// stream that is not WebSocket it takes out the wrong bytes, and nothing worse.
type splitter struct {
	head   [14]byte
	filled int    // bytes of head read so far
	want   int    // length of head, as far as known
	left   uint64 // payload still to come
	seen   int    // payload bytes seen, counted up to 2
	code   uint16 // of a close frame

	fragmented  bool // a data message has begun and not ended
	decided     bool // the frame has begun, or is about to
	dropFrame   bool // what was decided for it
	dropMessage bool // and for the data message it may belong to
}

// run consumes the beginning of b up to where the decision changes, and returns
// its length and the decision. decide is asked once for each message and control
// frame, with its opcode. closed is told the code of each close frame that is complete, 1005
// if it has none.
func (s *splitter) run(b []byte, decide func(op byte) bool, closed func(code uint16)) (n int, keep bool) {
	for n < len(b) {
		if !s.decided {
			s.decided, s.dropFrame = true, s.drops(b[n]&0x0f, decide)
			if n > 0 && keep == s.dropFrame {
				return n, keep
			}
		}
		keep = !s.dropFrame
		if s.filled < 2 || s.filled < s.want {
			s.readHead(b[n])
			n++
		} else {
			n += s.readPayload(b[n:])
		}
		if s.filled >= 2 && s.filled == s.want && s.left == 0 {
			s.endFrame(closed)
		}
	}
	return n, keep
}

// drops decides on a frame that begins: fragments share the fate of their message,
// control frames between them have their own.
func (s *splitter) drops(op byte, decide func(op byte) bool) bool {
	if op == opContinuation {
		return s.dropMessage
	}
	drop := !decide(op)
	if op < opClose {
		s.dropMessage = drop
	}
	return drop
}

func (s *splitter) readHead(c byte) {
	s.head[s.filled] = c
	s.filled++
	if s.filled == 2 {
		s.want = 2
		switch c & 0x7f {
		case 126:
			s.want += 2
		case 127:
			s.want += 8
		}
		if c&0x80 != 0 {
			s.want += 4
		}
	}
	if s.filled < 2 || s.filled < s.want {
		return
	}
	switch length := s.head[1] & 0x7f; length {
	case 126:
		s.left = uint64(binary.BigEndian.Uint16(s.head[2:]))
	case 127:
		s.left = binary.BigEndian.Uint64(s.head[2:])
	default:
		s.left = uint64(length)
	}
}

func (s *splitter) readPayload(b []byte) int {
	n := int(min(uint64(len(b)), s.left))
	for _, c := range b[:min(n, 2-s.seen)] {
		if s.head[1]&0x80 != 0 {
			c ^= s.head[s.want-4+s.seen]
		}
		s.code = s.code<<8 | uint16(c)
		s.seen++
	}
	s.left -= uint64(n)
	return n
}

func (s *splitter) endFrame(closed func(code uint16)) {
	if s.head[0]&0x0f == opClose {
		const noStatus = 1005
		if s.seen < 2 {
			s.code = noStatus
		}
		closed(s.code)
	}
	fin, op := s.head[0]&0x80 != 0, s.head[0]&0x0f
	*s = splitter{dropMessage: s.dropMessage, fragmented: op < opClose && !fin || op >= opClose && s.fragmented}
}

// inMessage reports whether the place is not one between two messages.
func (s *splitter) inMessage() bool { return s.filled > 0 || s.fragmented }
