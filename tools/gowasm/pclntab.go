package gowasm

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

var le = binary.LittleEndian

// pcHeaderStart is the magic of Go 1.20 and later, then the sizes of an
// instruction and of a pointer.
var pcHeaderStart = []byte{0xf1, 0xff, 0xff, 0xff, 0, 0, 1, 8}

// The words of runtime.moduledata up to the last that matters here. Slices take
// three: pointer, length, capacity.
const (
	mdHeader   = 0
	mdNames    = 1
	mdUnits    = 4
	mdFiles    = 7
	mdPCs      = 10
	mdFuncs    = 13
	mdFtab     = 16
	mdFindFunc = 19
	mdGofunc   = 40
	mdEnd      = 41
	mdWords    = 42
)

// span is a piece of the memory.
type span struct{ start, end uint64 }

func (s span) of(mem []byte) []byte { return mem[s.start:s.end] }

// pclntab says where in the memory the tables are by which the runtime knows its
// functions, and how many there are.
type pclntab struct {
	mem   []byte
	count int

	names    span // of functions, each with a zero behind it
	units    span // for each compilation unit, where the names of its files are
	files    span // names of files
	pcs      span // tables from pc to value
	funcs    span // from pc to record, then the records
	funcdata span // what records point to: stack maps, inline trees and more
	find     span // an index into funcs by pc
}

// record is runtime._func without the two lists that follow it.
type record struct {
	Entry       uint32 // on wasm the number of the function
	Name        uint32
	Args        uint32
	DeferReturn uint32
	SP          uint32
	File        uint32
	Line        uint32
	PCData      uint32
	Unit        uint32
	StartLine   uint32
	ID          uint8
	Flag        uint8
	_           uint8
	FuncData    uint8
}

const (
	headerSize = 72 // of runtime.pcHeader
	recordSize = 44
	inlineSize = 16        // of runtime.inlinedCall
	inlineName = 4         // where in it the name is
	none       = 1<<32 - 1 // funcdata: no entry
	maxFuncs   = 1_000_000 // far more than a browser would load
	pcdataMax  = pcBound + 1
	fdMax      = fdWrapInfo + 1
)

// The tables of a record: see internal/abi/symtab.go.
const (
	pcUnsafePoint = iota
	pcStackMap
	pcInlineIndex
	pcArgLive
	pcBound
)

const (
	fdArgsMap = iota
	fdLocalsMap
	fdStackObjects
	fdInlineTree
	fdOpenCodedDefer
	fdArgInfo
	fdArgLive
	fdWrapInfo
)

// function is a record with its lists. An offset of 0 in pcdata, and none in
// funcdata, say that there is nothing; so does the end of the list.
type function struct {
	record
	pcdata, funcdata []uint32
}

// entry is the one with this number in a list of pcdata or funcdata.
func entry(list []uint32, i int, missing uint32) uint32 {
	if i < len(list) {
		return list[i]
	}
	return missing
}

// readTables returns the data section of a module, and the tables in it.
func readTables(all []section) (data *section, t *pclntab, err error) {
	data, err = find(all, sectionData)
	if err != nil {
		return nil, nil, err
	}
	mem, err := memory(data.body)
	if err != nil {
		return nil, nil, err
	}
	t, err = findTables(mem)
	return data, t, err
}

// findTables finds runtime.pcheader and runtime.firstmoduledata, which point to
// each other, and checks that what they say agrees.
func findTables(mem []byte) (*pclntab, error) {
	headerAt, md, err := findModuledata(mem)
	if err != nil {
		return nil, err
	}
	word := func(at uint64, i int) uint64 { return le.Uint64(mem[at+8*uint64(i):]) } //nolint:gosec // small and positive
	t := &pclntab{mem: mem}
	next := headerAt + headerSize
	for _, table := range []struct {
		what string
		md   int // in moduledata
		head int // in the header
		size uint64
		span *span
	}{
		{"names of functions", mdNames, 4, 1, &t.names},
		{"files of units", mdUnits, 5, 4, &t.units},
		{"names of files", mdFiles, 6, 1, &t.files},
		{"pc tables", mdPCs, 7, 1, &t.pcs},
		{"functions", mdFuncs, 8, 1, &t.funcs},
	} {
		start, length := word(md, table.md), word(md, table.md+1)
		if start != headerAt+word(headerAt, table.head) || start < next || length > uint64(len(mem)) || start+table.size*length > uint64(len(mem)) {
			return nil, fmt.Errorf("table of the %s: at %#x with %d entries, which does not fit what the header says", table.what, start, length)
		}
		*table.span = span{start, start + table.size*length}
		next = table.span.end
	}
	count := word(headerAt, 1)
	gofunc, find, end := word(md, mdGofunc), word(md, mdFindFunc), word(md, mdEnd)
	switch {
	case count == 0 || count > maxFuncs:
		return nil, fmt.Errorf("%d functions", count)
	case word(md, mdFtab) != t.funcs.start || word(md, mdFtab+1) != count+1 || t.funcs.end-t.funcs.start < 8*count+4:
		return nil, fmt.Errorf("index of %d functions: not where their table begins", count)
	case gofunc < next || find < gofunc || end < find || end > uint64(len(mem)):
		return nil, fmt.Errorf("funcdata at %#x, index by pc at %#x, end at %#x: not in this order behind %#x", gofunc, find, end, next)
	}
	t.count = int(count) //nolint:gosec // at most maxFuncs
	t.funcdata, t.find = span{gofunc, find}, span{find, end}
	return t, nil
}

func findModuledata(mem []byte) (headerAt, md uint64, err error) {
	for at := 0; ; at++ {
		i := bytes.Index(mem[at:], pcHeaderStart)
		if i < 0 {
			break
		}
		at += i
		if at%8 != 0 || len(mem)-at < headerSize {
			continue
		}
		// The first two words of moduledata: the header, and the names behind it.
		first := le.AppendUint64(le.AppendUint64(nil, uint64(at)), uint64(at)+le.Uint64(mem[at+32:]))
		j := bytes.Index(mem, first)
		if j < 0 || len(mem)-j < 8*mdWords {
			continue
		}
		if md != 0 || bytes.Contains(mem[j+1:], first) {
			return 0, 0, errors.New("more than one thing looks like runtime.firstmoduledata")
		}
		headerAt, md = uint64(at), uint64(j)
	}
	if md == 0 {
		return 0, 0, errors.New("no runtime.pcheader of Go 1.20 or later that runtime.firstmoduledata points to")
	}
	return headerAt, md, nil
}

// functions reads all records, in the order of their pcs.
func (t *pclntab) functions() ([]function, error) {
	table := t.funcs.of(t.mem)
	all := make([]function, t.count)
	for i := range all {
		at := le.Uint32(table[8*i+4:])
		if uint64(at)+recordSize > uint64(len(table)) {
			return nil, fmt.Errorf("function %d: record at %#x of %#x", i, at, len(table))
		}
		f := &all[i]
		if _, err := binary.Decode(table[at:], le, &f.record); err != nil {
			return nil, fmt.Errorf("function %d: %w", i, err)
		}
		switch {
		case f.Entry != le.Uint32(table[8*i:]):
			return nil, fmt.Errorf("function %d: entry %#x in its record, %#x in the index", i, f.Entry, le.Uint32(table[8*i:]))
		case f.PCData > pcdataMax || f.FuncData > fdMax:
			return nil, fmt.Errorf("function %d: %d tables of pcdata and %d of funcdata, want at most %d and %d", i, f.PCData, f.FuncData, pcdataMax, fdMax)
		case uint64(f.Name) >= uint64(len(t.names.of(t.mem))):
			return nil, fmt.Errorf("function %d: name at %#x", i, f.Name)
		}
		lists := table[at+recordSize:]
		if size := 4 * (int(f.PCData) + int(f.FuncData)); len(lists) < size {
			return nil, fmt.Errorf("function %d: lists of %d bytes, %d are left", i, size, len(lists))
		}
		for j := range f.PCData {
			f.pcdata = append(f.pcdata, le.Uint32(lists[4*j:]))
		}
		for j := range uint32(f.FuncData) {
			f.funcdata = append(f.funcdata, le.Uint32(lists[4*(f.PCData+j):]))
		}
	}
	return all, nil
}

// name is the text at an offset into the names.
func (t *pclntab) name(at uint32) string {
	text, _, _ := bytes.Cut(t.names.of(t.mem)[at:], []byte{0})
	return string(text)
}

// pcTable is the table at an offset into pcs, with its end mark, and its largest
// value. It holds pairs of differences, of the value and of the pc; a difference of
// 0 in the value marks the end, unless it is the first.
func (t *pclntab) pcTable(at uint32) (table []byte, largest int32, err error) {
	pcs := t.pcs.of(t.mem)
	if uint64(at) >= uint64(len(pcs)) {
		return nil, 0, fmt.Errorf("pc table at %#x of %#x", at, len(pcs))
	}
	r := reader{rest: pcs[at:]}
	value := int32(-1)
	for first := true; ; first = false {
		delta := r.uint()
		if r.err != nil {
			return nil, 0, fmt.Errorf("pc table at %#x: no end", at)
		}
		if delta == 0 && !first {
			return pcs[at : len(pcs)-len(r.rest)], largest, nil
		}
		value += int32(delta>>1) ^ -int32(delta&1) //nolint:gosec // zigzag
		largest = max(largest, value)
		r.uint()
	}
}
