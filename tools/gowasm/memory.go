package gowasm

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	opI32Const = 0x41
	opEnd      = 0x0b
)

// maxMemory is more than any program of ours has, and less than what would hurt.
const maxMemory = 256 << 20

// joinGap is how many zeros make it worth to begin a segment anew. The linker cuts
// at eight, into tens of thousands of segments, whose offsets hardly compress, while
// runs of zeros do. What lies between 32 and 1,024 makes no difference.
const joinGap = 64

// memory is what a data section makes of the linear memory, from address 0.
func memory(data []byte) ([]byte, error) {
	r := reader{rest: data}
	var mem []byte
	for range r.uint() {
		if kind := r.uint(); kind != 0 {
			return nil, fmt.Errorf("data segment of kind %d, want 0: active, in memory 0", kind)
		}
		if op := r.byte(); op != opI32Const {
			return nil, fmt.Errorf("data segment at the result of instruction %#x, want i32.const", op)
		}
		at := int64(r.int())
		if r.byte() != opEnd {
			return nil, errors.New("data segment at an expression of more than one instruction")
		}
		segment := r.bytes(r.uint())
		end := at + int64(len(segment))
		switch {
		case r.err != nil:
			return nil, fmt.Errorf("data section: %w", r.err)
		case at < 0 || end > maxMemory:
			return nil, fmt.Errorf("data segment from %#x to %#x, want one below %#x", at, end, maxMemory)
		}
		mem = append(mem, make([]byte, max(0, end-int64(len(mem))))...)
		copy(mem[at:], segment)
	}
	return mem, nil
}

// dataSection is the inverse of memory. The memory is zero where nothing is
// written, so long runs of zeros are left out.
func dataSection(mem []byte) []byte {
	var segments []byte
	count := uint64(0)
	for start := 0; start < len(mem); {
		if mem[start] == 0 {
			start++
			continue
		}
		end := start + 1 // behind the last byte that is not zero
		for i := end; i < len(mem) && i-end < joinGap; i++ {
			if mem[i] != 0 {
				end = i + 1
			}
		}
		segments = append(segments, 0, opI32Const)
		segments = appendInt(segments, int32(start)) //nolint:gosec // at most maxMemory
		segments = append(segments, opEnd)
		segments = binary.AppendUvarint(segments, uint64(end-start))
		segments = append(segments, mem[start:end]...)
		count++
		start = end
	}
	return append(binary.AppendUvarint(nil, count), segments...)
}
