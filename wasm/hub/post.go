package hub

import (
	"slices"

	"github.com/longwire/longwire/wire"
)

// shared reports whether there is another tab.
func (h *Hub) shared() bool { return len(h.tabs) > 1 }

// tellText gives the own tab a frame as it stands.
func (h *Hub) tellText(text []byte) { h.out = append(h.out, Action{Kind: Tell, Text: text}) }

func (h *Hub) tellFrame(f wire.Frame) { h.tellText(h.write(f)) }

// write returns the text of a frame, which is valid until the next call.
func (h *Hub) write(f wire.Frame) []byte {
	start := len(h.buf)
	h.buf = f.Append(h.buf)
	return slices.Clip(h.buf[start:])
}

// postText posts a frame as it stands to all tabs.
func (h *Hub) postText(text []byte) { h.postIn(0, text) }

func (h *Hub) postIn(room int64, text []byte) {
	h.out = append(h.out, Action{Kind: Post, Head: h.head, Text: text, Room: room})
}

// send gives a frame to one tab.
func (h *Hub) send(t *tab, f wire.Frame) {
	if t == h.own {
		h.tellFrame(f)
		return
	}
	start := len(h.buf)
	h.buf = wire.Envelope{Gen: h.gen, Hub: h.id, To: t.id}.AppendHead(h.buf)
	head := slices.Clip(h.buf[start:])
	h.out = append(h.out, Action{Kind: Post, Head: head, Text: h.write(f)})
}

// relay gives a frame of a stream to all tabs that want it; text is nil where it is
// not what the server sent.
func (h *Hub) relay(s *stream, f wire.Frame, text []byte) {
	others := len(s.wants)
	own := slices.Contains(s.wants, h.own)
	if own {
		others--
	}
	if text == nil && len(s.wants) > 0 {
		text = h.write(f)
	}
	if own {
		h.tellText(text)
	}
	if others == 0 {
		return
	}
	h.postIn(h.room, text)
	if h.sent += uint64(max(len(text), h.size)); h.sent-h.atBeat > beatBytes && h.beat.on {
		h.beat.set(h.now, 0) // to see who keeps up
	}
}

// rank takes the number that the machine has chosen.
func (h *Hub) rank() {
	h.gen = h.m.Gen()
	if h.first == 0 {
		h.first = h.gen
	}
	h.head = wire.Envelope{Gen: h.gen, Hub: h.id}.AppendHead(nil) // actions have the one before
}
