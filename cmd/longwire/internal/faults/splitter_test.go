package faults

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// frame builds one frame the way RFC 6455 section 5.2 draws it.
func frame(fin bool, op byte, mask []byte, payload []byte) []byte {
	first := op
	if fin {
		first |= 0x80
	}
	b := []byte{first, 0}
	switch n := len(payload); {
	case n < 126:
		b[1] = byte(n)
	case n < 1<<16:
		b[1] = 126
		b = binary.BigEndian.AppendUint16(b, uint16(n))
	default:
		b[1] = 127
		b = binary.BigEndian.AppendUint64(b, uint64(n))
	}
	if mask == nil {
		return append(b, payload...)
	}
	b[1] |= 0x80
	b = append(b, mask...)
	for i, c := range payload {
		b = append(b, c^mask[i%4])
	}
	return b
}

// filter runs stream through a splitter in pieces of the given sizes, the last of
// which is repeated.
func filter(stream []byte, sizes []int, decide func(op byte) bool) (kept []byte, codes []uint16) {
	var s splitter
	for i := 0; len(stream) > 0; i++ {
		piece := stream[:min(len(stream), sizes[min(i, len(sizes)-1)])]
		stream = stream[len(piece):]
		for len(piece) > 0 {
			n, keep := s.run(piece, decide, func(code uint16) { codes = append(codes, code) })
			if keep {
				kept = append(kept, piece[:n]...)
			}
			piece = piece[n:]
		}
	}
	return kept, codes
}

func TestSplitterTakesOutWholeMessagesInAnyPieces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var stream, want []byte
		var fates []bool
		masked := rapid.Bool().Draw(t, "masked")
		add := func(keep, fin bool, op byte) {
			size := rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(120, 130), rapid.Just(1<<16)).Draw(t, "size")
			if op >= opClose {
				size = min(size, 125)
			}
			var mask []byte
			if masked {
				mask = rapid.SliceOfN(rapid.Byte(), 4, 4).Draw(t, "mask")
			}
			f := frame(fin, op, mask, bytes.Repeat([]byte{op}, size))
			stream = append(stream, f...)
			if keep {
				want = append(want, f...)
			}
		}
		for range rapid.IntRange(1, 6).Draw(t, "messages") {
			keep := rapid.Bool().Draw(t, "keep")
			fates = append(fates, keep)
			fragments := rapid.IntRange(0, 2).Draw(t, "fragments")
			add(keep, fragments == 0, 1)
			for i := range fragments {
				if rapid.Bool().Draw(t, "ping between") {
					ping := rapid.Bool().Draw(t, "keep ping")
					fates = append(fates, ping)
					add(ping, true, 9)
				}
				add(keep, i == fragments-1, opContinuation)
			}
		}
		sizes := rapid.SliceOfN(rapid.IntRange(1, 200), 1, 20).Draw(t, "pieces")
		asked := 0
		got, _ := filter(stream, sizes, func(byte) bool {
			asked++
			return fates[asked-1]
		})
		if !bytes.Equal(got, want) || asked != len(fates) {
			t.Fatalf("kept %d bytes after %d questions, want %d after %d", len(got), asked, len(want), len(fates))
		}
	})
}

func TestSplitterReadsCloseCodes(t *testing.T) {
	mask := []byte{0x11, 0x22, 0x33, 0x44}
	code := func(c uint16, reason string) []byte { return append(binary.BigEndian.AppendUint16(nil, c), reason...) }
	stream := slices.Concat(
		frame(true, 1, mask, []byte{0x0f, 0xa1}),
		frame(true, opClose, mask, code(4001, "leaving")),
		frame(true, opClose, mask, nil),
		frame(true, opClose, nil, code(1012, "")),
	)
	for _, size := range []int{1, 3, len(stream)} {
		_, got := filter(stream, []int{size}, func(byte) bool { return true })
		if want := []uint16{4001, 1005, 1012}; !slices.Equal(got, want) {
			t.Errorf("pieces of %d bytes: codes %v, want %v", size, got, want)
		}
	}
}

func FuzzSplitter(f *testing.F) {
	f.Add([]byte("\x88\x02\x03\xe8\x81\x00\x81\x7f\xff\xff\xff\xff\xff\xff\xff\xff"), uint8(3))
	f.Add([]byte("\x00\x00"), uint8(1)) // a fragment of nothing
	f.Fuzz(func(t *testing.T, stream []byte, size uint8) {
		got, _ := filter(stream, []int{int(size) + 1}, func(byte) bool { return true })
		if !bytes.Equal(got, stream) {
			t.Errorf("kept %x of %x", got, stream)
		}
	})
}
