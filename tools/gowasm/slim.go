package gowasm

import (
	"encoding/binary"
	"fmt"
	"go/version"
	"slices"
	"strings"
)

// checked is the release of Go whose tables and whose use of them were read. Before
// another is added: compare runtime/symtab.go, symtabinl.go, panic.go (gorecover),
// stkframe.go and internal/abi/symtab.go with those of the last, and run the tests.
const checked = "go1.26"

// funcIDWrapper marks what the compiler made to call something else.
const funcIDWrapper = 23

// Slim returns the module with what only tracebacks read taken out of its data, and
// the rest of the data packed. Code and addresses stay as they are. A traceback
// still names each function, and says how far into it, but no file and line, no
// arguments, and no functions that were inlined; nor does runtime.Callers count these.
func Slim(module []byte) ([]byte, error) {
	all, err := sections(module)
	if err != nil {
		return nil, err
	}
	made, err := goVersion(all)
	if err != nil {
		return nil, err
	}
	if version.Lang(made) != checked {
		return nil, fmt.Errorf("the module comes from %s, and only what %s makes is known to survive: see checked in tools/gowasm/slim.go", made, checked)
	}
	data, t, err := readTables(all)
	if err != nil {
		return nil, err
	}
	if err := t.slim(); err != nil {
		return nil, err
	}
	data.body = dataSection(t.mem)
	return join(all), nil
}

// slim rewrites the tables where they are.
func (t *pclntab) slim() error {
	functions, err := t.functions()
	if err != nil {
		return err
	}
	before := offsets(functions)
	for i := range functions {
		functions[i].forget()
	}
	if err := t.packFuncdata(before, functions); err != nil {
		return err
	}
	if err := t.packNames(functions); err != nil {
		return err
	}
	if err := t.packPCs(functions); err != nil {
		return err
	}
	t.roundIndex()
	clear(t.units.of(t.mem))
	clear(t.files.of(t.mem))
	return t.packFunctions(functions)
}

// forget drops what only tracebacks read, and the tables of preemption by signals,
// which wasm has not.
//
// The inline trees of wrappers stay. For recover counts the frames between itself
// and the panic, those that were inlined included, and leaves out wrappers: were a
// wrapper's tree to go, a panic would be recovered that Go lets pass. Elsewhere a
// tree changes nothing for it: a frame that is no wrapper counts without it, the
// second such frame ends the search, and what calls recover is never inlined.
func (f *function) forget() {
	f.File, f.Line, f.Unit, f.StartLine = 0, 0, 0, 0
	pcdata := []int{pcUnsafePoint, pcArgLive}
	funcdata := []int{fdArgInfo, fdArgLive}
	if f.ID != funcIDWrapper {
		pcdata = append(pcdata, pcInlineIndex)
		funcdata = append(funcdata, fdInlineTree)
	}
	for _, i := range pcdata {
		if i < len(f.pcdata) {
			f.pcdata[i] = 0
		}
	}
	for _, i := range funcdata {
		if i < len(f.funcdata) {
			f.funcdata[i] = none
		}
	}
	for len(f.pcdata) > 0 && f.pcdata[len(f.pcdata)-1] == 0 {
		f.pcdata = f.pcdata[:len(f.pcdata)-1]
	}
	for len(f.funcdata) > 0 && f.funcdata[len(f.funcdata)-1] == none {
		f.funcdata = f.funcdata[:len(f.funcdata)-1]
	}
}

// offsets are those of all funcdata that is pointed to, in order.
func offsets(functions []function) []uint32 {
	var all []uint32
	for _, f := range functions {
		for _, at := range f.funcdata {
			if at != none {
				all = append(all, at)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// packFuncdata writes the funcdata that is left, kind by kind in the order of its
// use. Nothing but the records points there. Each piece ends where the next began.
func (t *pclntab) packFuncdata(before []uint32, functions []function) error {
	data := t.funcdata.of(t.mem)
	var packed []byte
	moved := map[uint32]uint32{}
	for kind := range fdMax {
		for _, f := range functions {
			if kind >= len(f.funcdata) || f.funcdata[kind] == none {
				continue
			}
			from := f.funcdata[kind]
			to, ok := moved[from]
			if !ok {
				end := len(data)
				if i, _ := slices.BinarySearch(before, from); i+1 < len(before) {
					end = int(before[i+1])
				}
				if int(from) >= end || end > len(data) {
					return fmt.Errorf("%s: funcdata %d at %#x of %#x", t.name(f.Name), kind, from, len(data))
				}
				for len(packed)%8 != int(from)%8 { // no piece is aligned to more than a word
					packed = append(packed, 0)
				}
				to = uint32(len(packed)) //nolint:gosec // replace checks that it is less than there was
				moved[from] = to
				packed = append(packed, data[from:end]...)
			}
			f.funcdata[kind] = to
		}
	}
	return t.funcdata.replace(t.mem, packed, "funcdata")
}

// packNames writes the names of the functions that are left, and only those.
func (t *pclntab) packNames(functions []function) error {
	// Offset 0 stands for no name, so the first one stays there.
	packed := t.names.packer("names of functions")
	put := func(at uint32) uint32 { return packed.put(append([]byte(printed(t.name(at))), 0)) }
	for i := range functions {
		functions[i].Name = put(functions[i].Name)
	}
	trees := map[uint32]bool{}
	for _, f := range functions {
		tree, index := entry(f.funcdata, fdInlineTree, none), entry(f.pcdata, pcInlineIndex, 0)
		if tree == none || index == 0 || trees[tree] {
			continue
		}
		trees[tree] = true
		_, largest, err := t.pcTable(index)
		if err != nil {
			return err
		}
		calls := t.funcdata.of(t.mem)[tree:]
		if count := int(largest) + 1; len(calls) < inlineSize*count {
			return fmt.Errorf("%d inlined calls at %#x: %d bytes are left", count, tree, len(calls))
		}
		for i := range int(largest) + 1 {
			name := calls[inlineSize*i+inlineName:]
			le.PutUint32(name, put(le.Uint32(name)))
		}
	}
	return packed.write(t.mem)
}

// printed is the name as the runtime prints it (runtime.funcNameForPrint), which
// leaves out what type arguments are.
func printed(name string) string {
	i, j := strings.IndexByte(name, '['), strings.LastIndexByte(name, ']')
	if i < 0 || j <= i {
		return name
	}
	return name[:i] + "[...]" + name[j+1:]
}

// packPCs writes the pc tables that are left, in the order of their use.
func (t *pclntab) packPCs(functions []function) error {
	packed := t.pcs.packer("pc tables")
	packed.put([]byte{0}) // offset 0 stands for no table
	for i := range functions {
		f := &functions[i]
		at := []*uint32{&f.SP}
		for j := range f.pcdata {
			at = append(at, &f.pcdata[j])
		}
		for _, at := range at {
			if *at == 0 {
				continue
			}
			table, _, err := t.pcTable(*at)
			if err != nil {
				return fmt.Errorf("%s: %w", t.name(f.Name), err)
			}
			*at = packed.put(table)
		}
	}
	return packed.write(t.mem)
}

// roundIndex makes runtime.findfunc begin up to seven functions early; from there it
// looks at one after the other. So runs of equal bytes are longer.
func (t *pclntab) roundIndex() {
	const bucket = 4 + 16 // runtime.findfuncbucket: where to begin, and how much later in each sixteenth
	index := t.find.of(t.mem)
	for ; len(index) >= bucket; index = index[bucket:] {
		le.PutUint32(index, le.Uint32(index)&^7)
	}
}

// packFunctions writes the records and the index that points to them.
func (t *pclntab) packFunctions(functions []function) error {
	index := 8*len(functions) + 4
	table := slices.Clone(t.funcs.of(t.mem)[:index])
	for i, f := range functions {
		for len(table)%8 != 0 { // as the linker aligns them
			table = append(table, 0)
		}
		le.PutUint32(table[8*i+4:], uint32(len(table)))                      //nolint:gosec // less than it was
		f.PCData, f.FuncData = uint32(len(f.pcdata)), uint8(len(f.funcdata)) //nolint:gosec // less than they were
		for _, part := range []any{f.record, f.pcdata, f.funcdata} {
			var err error
			if table, err = binary.Append(table, le, part); err != nil {
				return err
			}
		}
	}
	return t.funcs.replace(t.mem, table, "functions")
}

// packer collects pieces of a table, each once.
type packer struct {
	span span
	what string
	data []byte
	seen map[string]uint32
}

func (s span) packer(what string) *packer {
	return &packer{span: s, what: what, seen: map[string]uint32{}}
}

// put returns where the piece is.
func (p *packer) put(piece []byte) uint32 {
	at, ok := p.seen[string(piece)]
	if !ok {
		at = uint32(len(p.data)) //nolint:gosec // write checks that it is less than there was
		p.seen[string(piece)] = at
		p.data = append(p.data, piece...)
	}
	return at
}

func (p *packer) write(mem []byte) error { return p.span.replace(mem, p.data, p.what) }

// replace writes data into the span and zeros behind it.
func (s span) replace(mem, data []byte, what string) error {
	old := s.of(mem)
	if len(data) > len(old) {
		return fmt.Errorf("table of the %s: %d bytes, more than the %d it had", what, len(data), len(old))
	}
	clear(old[copy(old, data):])
	return nil
}
