package gowasm

import (
	"bytes"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func TestNumbersSurvive(t *testing.T) {
	for _, v := range []int32{0, 1, -1, 63, 64, -64, -65, 127, 128, 8191, 8192, -8192, -8193, math.MaxInt32, math.MinInt32} {
		r := reader{rest: appendInt(nil, v)}
		if got := r.int(); got != v || len(r.rest) != 0 || r.err != nil {
			t.Errorf("%d: got %d with %d bytes left and error %v", v, got, len(r.rest), r.err)
		}
	}
}

func TestMemorySurvives(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for _, size := range []int{0, 1, joinGap, 10_000, 100_000} {
		for _, density := range []float64{0, 0.001, 0.02, 0.5} {
			mem := make([]byte, size)
			for i := range mem {
				if random.Float64() < density {
					mem[i] = byte(random.Uint32())
				}
			}
			got, err := memory(dataSection(mem))
			if err != nil {
				t.Fatal(err)
			}
			if want := bytes.TrimRight(mem, "\x00"); !bytes.Equal(got, want) {
				t.Errorf("%d bytes, a share of %v not zero: got %d bytes, want the %d written", size, density, len(got), len(want))
			}
		}
	}
}

func TestRunsOfZerosAreLeftOut(t *testing.T) {
	mem := make([]byte, 1000)
	for _, i := range []int{10, 10 + joinGap, 10 + 2*joinGap + 1, 999} {
		mem[i] = 1
	}
	r := reader{rest: dataSection(mem)}
	if got := r.uint(); got != 3 {
		t.Errorf("segments: got %d, want 3: one over a gap below %d, and two", got, joinGap)
	}
}

func TestSlimRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	module, _ := program(t)
	// edit changes the memory, which Slim then finds in the module.
	edit := func(change func(p *pclntab)) []byte {
		p := tablesOf(t, module)
		change(p)
		all, err := sections(module)
		if err != nil {
			t.Fatal(err)
		}
		data, err := find(all, sectionData)
		if err != nil {
			t.Fatal(err)
		}
		data.body = dataSection(p.mem)
		return join(all)
	}
	function := func(p *pclntab) []byte { // a record in the middle of them
		table := p.funcs.of(p.mem)
		return table[le.Uint32(table[8*(p.count/2)+4:]):]
	}
	for _, tc := range []struct {
		name   string
		module []byte
		want   string
	}{
		{"something else", []byte("GIF89a"), "not a WebAssembly module"},
		{"half of a module", module[:len(module)/2], "ends too early"},
		{"no sections", header, "does not say which Go"},
		{"another Go", bytes.ReplaceAll(module, []byte("go1.26"), []byte("go1.27")), "comes from go1.27"},
		{"another magic", edit(func(p *pclntab) { p.mem[p.names.start-headerSize] = 0xf0 }), "no runtime.pcheader"},
		{"another size of pointers", edit(func(p *pclntab) { p.mem[p.names.start-headerSize+7] = 4 }), "no runtime.pcheader"},
		{"a table elsewhere", edit(func(p *pclntab) { p.mem[p.names.start-headerSize+48]++ }), "table of the names of files"},
		{"another number of functions", edit(func(p *pclntab) { p.mem[p.names.start-headerSize+8]++ }), "index of"},
		{"no functions", edit(func(p *pclntab) { clear(p.mem[p.names.start-headerSize+8:][:8]) }), "0 functions"},
		{"another kind of pcdata", edit(func(p *pclntab) { function(p)[28] = pcdataMax + 1 }), "6 tables of pcdata"},
		{"another kind of funcdata", edit(func(p *pclntab) { function(p)[43] = fdMax + 1 }), "9 of funcdata"},
		{"another entry", edit(func(p *pclntab) { function(p)[0]++ }), "in the index"},
		{"a name outside", edit(func(p *pclntab) { function(p)[7] = 0x7f }), "name at"},
		{"a pc table outside", edit(func(p *pclntab) { function(p)[19] = 0x7f }), "pc table at"},
	} {
		if _, err := Slim(tc.module); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want one with %q", tc.name, err, tc.want)
		}
	}
}

func TestPrintedAsTheRuntimePrints(t *testing.T) {
	for name, want := range map[string]string{
		"main.f":                           "main.f",
		"main.f[go.shape.int]":             "main.f[...]",
		"a/b.(*T[go.shape.[]int]).M.func1": "a/b.(*T[...]).M.func1",
		"main.f[":                          "main.f[",
	} {
		if got := printed(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func TestPackagesHoldAllTheCode(t *testing.T) {
	t.Parallel()
	before, after := program(t)
	packages, err := Packages(before)
	if err != nil {
		t.Fatal(err)
	}
	all, err := sections(before)
	if err != nil {
		t.Fatal(err)
	}
	code, err := find(all, sectionCode)
	if err != nil {
		t.Fatal(err)
	}
	sum := 0
	var names []string
	for _, p := range packages {
		sum += p.Bytes
		names = append(names, p.Name)
	}
	if share := float64(sum) / float64(len(code.body)); share < 0.99 || share > 1 {
		t.Errorf("code of all packages: %d of %d bytes, want nearly all", sum, len(code.body))
	}
	for _, want := range []string{"main", "runtime", "reflect", "internal/runtime/maps"} {
		if !slices.Contains(names, want) {
			t.Errorf("packages: got %q, want %s among them", names, want)
		}
	}
	if slim, err := Packages(after); err != nil || !slices.Equal(slim, packages) {
		t.Errorf("packages of the slim module: got %v and error %v, want those of the linked one", slim, err)
	}
}

func TestPackageOf(t *testing.T) {
	for name, want := range map[string]string{
		"main.main":             "main",
		"main.(*T).M.func1":     "main",
		"example.org/a/b%2ec.F": "example.org/a/b.c",
		"example.org/a.F[go.shape.*example.org/b.T]": "example.org/a",
		"type:.eq.struct { example.org/a.T }":        "(comparisons of types)",
		"memeqbody":                                  "runtime",
		"go:buildid":                                 "runtime",
	} {
		if got := packageOf(name); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}
