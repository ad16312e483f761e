// Package gowasm reads the wasm that Go's linker writes, says what is in it, and
// makes it smaller without a change of code or addresses.
//
// It follows cmd/link/internal/wasm/asm.go, cmd/link/internal/ld/pcln.go and
// runtime/symtab.go, and refuses what does not look as they are known.
package gowasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The sections that are looked into (WebAssembly Core Specification 5.5.2).
const (
	sectionCustom = 0
	sectionCode   = 10
	sectionData   = 11
)

var header = []byte("\x00asm\x01\x00\x00\x00")

// section is one of a module, without its header.
type section struct {
	id   byte
	body []byte
}

// sections takes a module apart.
func sections(module []byte) ([]section, error) {
	if !bytes.HasPrefix(module, header) {
		return nil, errors.New("not a WebAssembly module of version 1")
	}
	r := reader{rest: module[len(header):]}
	var all []section
	for len(r.rest) > 0 && r.err == nil {
		all = append(all, section{id: r.byte(), body: r.bytes(r.uint())})
	}
	return all, r.err
}

// join is the inverse of sections.
func join(all []section) []byte {
	module := bytes.Clone(header)
	for _, s := range all {
		module = append(module, s.id)
		module = binary.AppendUvarint(module, uint64(len(s.body)))
		module = append(module, s.body...)
	}
	return module
}

// find is the one section with this number.
func find(all []section, id byte) (*section, error) {
	var found *section
	for i := range all {
		if all[i].id == id {
			if found != nil {
				return nil, fmt.Errorf("two sections %d, want one", id)
			}
			found = &all[i]
		}
	}
	if found == nil {
		return nil, fmt.Errorf("no section %d", id)
	}
	return found, nil
}

// functionBodies takes the code section apart.
func functionBodies(code []byte) ([][]byte, error) {
	r := reader{rest: code}
	var bodies [][]byte
	for range r.uint() {
		bodies = append(bodies, r.bytes(r.uint()))
		if r.err != nil {
			return nil, fmt.Errorf("code section: %w", r.err)
		}
	}
	return bodies, nil
}

// goVersion is the toolchain that the module says it comes from, in the custom
// section "producers".
func goVersion(all []section) (string, error) {
	for _, s := range all {
		r := reader{rest: s.body}
		if s.id != sectionCustom || r.string() != "producers" {
			continue
		}
		for range r.uint() {
			field := r.string()
			for range r.uint() {
				name, version := r.string(), r.string()
				if r.err == nil && field == "language" && name == "Go" {
					return version, nil
				}
			}
		}
	}
	return "", errors.New("the module does not say which Go made it")
}

var errShort = errors.New("the module ends too early")

// reader reads WebAssembly's binary format. After an error it reads zeros.
type reader struct {
	rest []byte
	err  error
}

func (r *reader) fail(err error) {
	r.rest = nil
	if r.err == nil {
		r.err = err
	}
}

func (r *reader) bytes(n uint32) []byte {
	if uint64(n) > uint64(len(r.rest)) {
		r.fail(errShort)
		return nil
	}
	b := r.rest[:n]
	r.rest = r.rest[n:]
	return b
}

func (r *reader) byte() byte {
	if b := r.bytes(1); len(b) == 1 {
		return b[0]
	}
	return 0
}

func (r *reader) string() string { return string(r.bytes(r.uint())) }

// uint reads an unsigned LEB128, which is what encoding/binary calls a varint.
func (r *reader) uint() uint32 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || v > 1<<32-1 {
		r.fail(errShort)
		return 0
	}
	r.rest = r.rest[n:]
	return uint32(v)
}

// int reads a signed LEB128, whose sign is bit 6 of the last byte.
func (r *reader) int() int32 {
	var v int64
	for shift := 0; shift < 35; shift += 7 {
		b := r.byte()
		v |= int64(b&0x7f) << shift
		if b&0x80 == 0 {
			if b&0x40 != 0 {
				v -= 1 << (shift + 7)
			}
			return int32(v)
		}
	}
	r.fail(errors.New("a number of more than five bytes"))
	return 0
}

// appendInt is the inverse of reader.int.
func appendInt(b []byte, v int32) []byte {
	for v < -64 || v > 63 {
		b = append(b, byte(v&0x7f|0x80))
		v >>= 7
	}
	return append(b, byte(v&0x7f))
}
