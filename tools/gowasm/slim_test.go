package gowasm

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// linked is testdata/program as the linker leaves it, and the place of Go's files.
var linked = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "gowasm-test-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target := filepath.Join(dir, "program.wasm")
	cmd := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", target, "./testdata/program")
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("go build: %w\n%s", err, text)
	}
	return os.ReadFile(target)
})

func program(t *testing.T) (before, after []byte) {
	t.Helper()
	before, err := linked()
	if err != nil {
		t.Fatal(err)
	}
	after, err = Slim(before)
	if err != nil {
		t.Fatal(err)
	}
	return before, after
}

// play runs a module under Node and returns what it printed and its exit code.
func play(t *testing.T, module []byte, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is missing")
	}
	goroot, err := exec.CommandContext(t.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "program.wasm")
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(strings.TrimSpace(string(goroot)), "lib", "wasm", "wasm_exec_node.js")
	cmd := exec.CommandContext(t.Context(), node, append([]string{"--stack-size=8192", loader, file}, args...)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH")} // a program has little room for it
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	_ = cmd.Run() // an exit code is no failure here
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestSlimBehavesAsLinked(t *testing.T) {
	t.Parallel()
	before, after := program(t)
	want, errs, code := play(t, before)
	if code != 0 || strings.Count(want, "\n") < 40 {
		t.Fatalf("the program as linked: exit code %d, and it printed\n%s%s", code, want, errs)
	}
	if got, errs, code := play(t, after); got != want || code != 0 {
		t.Errorf("slim: exit code %d, and it printed\n%s%s\nwant\n%s", code, got, errs, want)
	}
}

// A traceback loses arguments, files and lines, but no function.
func TestPanicNamesItsFunctions(t *testing.T) {
	t.Parallel()
	before, after := program(t)
	_, want, wantCode := play(t, before, "die")
	want = regexp.MustCompile(`(?m)^(main\.\w+)\(.*\)$`).ReplaceAllString(want, "$1()")
	want = regexp.MustCompile(`(?m)^\t\S+:\d+ `).ReplaceAllString(want, "\t?:0 ")
	for _, line := range []string{"panic: boom", "main.explode()", "created by main.die in goroutine 1"} {
		if !strings.Contains(want, line) {
			t.Errorf("the program as linked lacks %q in\n%s", line, want)
		}
	}
	if _, got, code := play(t, after, "die"); got != want || code != wantCode {
		t.Errorf("slim: exit code %d and\n%s\nwant %d and\n%s", code, got, wantCode, want)
	}
}

func TestSlimChangesOnlyTheData(t *testing.T) {
	t.Parallel()
	before, after := program(t)
	was, err := sections(before)
	if err != nil {
		t.Fatal(err)
	}
	is, err := sections(after)
	if err != nil {
		t.Fatal(err)
	}
	if len(is) != len(was) {
		t.Fatalf("sections: got %d, want %d", len(is), len(was))
	}
	for i := range is {
		if is[i].id != was[i].id || is[i].id != sectionData && !bytes.Equal(is[i].body, was[i].body) {
			t.Errorf("section %d of kind %d: differs from that of kind %d", i, is[i].id, was[i].id)
		}
	}
	old, slim := tablesOf(t, before), tablesOf(t, after)
	rest := func(p *pclntab) []byte {
		mem := bytes.Clone(p.mem)
		for _, s := range []span{p.names, p.units, p.files, p.pcs, p.funcs, p.funcdata, p.find} {
			clear(s.of(mem))
		}
		return mem
	}
	if !bytes.Equal(rest(slim), rest(old)) {
		t.Error("the memory outside the tables differs")
	}
	if twice, err := Slim(after); err != nil || !bytes.Equal(twice, after) {
		t.Errorf("slim twice: got error %v and %d bytes, want the %d of once", err, len(twice), len(after))
	}
}

func tablesOf(t *testing.T, module []byte) *pclntab {
	t.Helper()
	all, err := sections(module)
	if err != nil {
		t.Fatal(err)
	}
	_, tables, err := readTables(all)
	if err != nil {
		t.Fatal(err)
	}
	return tables
}

func functionsOf(t *testing.T, p *pclntab) []function {
	t.Helper()
	all, err := p.functions()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// What the runtime acts on is the same at every pc of every function.
func TestSlimKeepsWhatTheRuntimeNeeds(t *testing.T) {
	t.Parallel()
	before, after := program(t)
	old, slim := tablesOf(t, before), tablesOf(t, after)
	was, is := functionsOf(t, old), functionsOf(t, slim)
	if len(is) != len(was) {
		t.Fatalf("functions: got %d, want %d", len(is), len(was))
	}
	ends := offsets(was)
	for i := range is {
		f, g := was[i], is[i]
		name := printed(old.name(f.Name))
		if got := slim.name(g.Name); got != name || (g.Name == 0) != (f.Name == 0) {
			t.Errorf("function %d: got name %q at %d, want %q at %d", i, got, g.Name, name, f.Name)
		}
		if g.Entry != f.Entry || g.Args != f.Args || g.DeferReturn != f.DeferReturn || g.ID != f.ID || g.Flag != f.Flag {
			t.Errorf("%s: got record %+v, want that of %+v", name, g.record, f.record)
		}
		if g.File != 0 || g.Line != 0 {
			t.Errorf("%s: it has tables of files and lines", name)
		}
		for _, table := range []struct {
			what     string
			was, is  uint32
			optional bool
		}{
			{"stack pointers", f.SP, g.SP, false},
			{"stack maps", entry(f.pcdata, pcStackMap, 0), entry(g.pcdata, pcStackMap, 0), false},
			{"bounds", entry(f.pcdata, pcBound, 0), entry(g.pcdata, pcBound, 0), false},
			{"inlined calls", entry(f.pcdata, pcInlineIndex, 0), entry(g.pcdata, pcInlineIndex, 0), f.ID != funcIDWrapper},
			{"unsafe points", entry(f.pcdata, pcUnsafePoint, 0), entry(g.pcdata, pcUnsafePoint, 0), true},
		} {
			want := pcTableOf(t, old, table.was)
			if table.optional {
				want = ""
			}
			if got := pcTableOf(t, slim, table.is); got != want {
				t.Errorf("%s: table of the %s: got % x, want % x", name, table.what, got, want)
			}
		}
		for kind := range fdMax {
			from, to := entry(f.funcdata, kind, none), entry(g.funcdata, kind, none)
			if kind == fdArgInfo || kind == fdArgLive || kind == fdInlineTree && f.ID != funcIDWrapper {
				from = none
			}
			if (from == none) != (to == none) {
				t.Errorf("%s: funcdata %d at %#x, was at %#x", name, kind, to, from)
			}
			if from == none || kind == fdInlineTree { // whose names have moved: see below
				continue
			}
			want := piece(old, ends, from)
			if got := slim.funcdata.of(slim.mem)[to:][:len(want)]; !bytes.Equal(got, want) || to%8 != from%8 {
				t.Errorf("%s: funcdata %d: got % x at %#x, want % x at %#x", name, kind, got, to, want, from)
			}
		}
		compareTrees(t, old, slim, f, g)
	}
}

func pcTableOf(t *testing.T, p *pclntab, at uint32) string {
	t.Helper()
	if at == 0 {
		return ""
	}
	table, _, err := p.pcTable(at)
	if err != nil {
		t.Fatal(err)
	}
	return string(table)
}

func piece(p *pclntab, starts []uint32, from uint32) []byte {
	end := uint32(len(p.funcdata.of(p.mem)))
	for _, s := range starts {
		if s > from {
			end = s
			break
		}
	}
	return p.funcdata.of(p.mem)[from:end]
}

// compareTrees holds the inlined calls of a wrapper against what they were.
func compareTrees(t *testing.T, old, slim *pclntab, f, g function) {
	t.Helper()
	from, to := entry(f.funcdata, fdInlineTree, none), entry(g.funcdata, fdInlineTree, none)
	index := entry(f.pcdata, pcInlineIndex, 0)
	if f.ID != funcIDWrapper || from == none || to == none || index == 0 {
		return
	}
	_, largest, err := old.pcTable(index)
	if err != nil {
		t.Fatal(err)
	}
	for i := range uint32(largest) + 1 {
		was := bytes.Clone(old.funcdata.of(old.mem)[from+inlineSize*i:][:inlineSize])
		is := bytes.Clone(slim.funcdata.of(slim.mem)[to+inlineSize*i:][:inlineSize])
		want, got := printed(old.name(le.Uint32(was[inlineName:]))), slim.name(le.Uint32(is[inlineName:]))
		clear(was[inlineName:][:4])
		clear(is[inlineName:][:4])
		if got != want || !bytes.Equal(is, was) {
			t.Errorf("%s: inlined call %d: got %s % x, want %s % x", slim.name(g.Name), i, got, is, want, was)
		}
	}
}

// From where runtime.findfunc begins to look, it gets to the same function.
func TestSlimIndexBeginsAtOrBeforeEachFunction(t *testing.T) {
	t.Parallel()
	before, after := program(t)
	old, slim := tablesOf(t, before), tablesOf(t, after)
	was, is := old.find.of(old.mem), slim.find.of(slim.mem)
	for i := 0; i+20 <= len(was); i += 20 {
		from, to := le.Uint32(was[i:]), le.Uint32(is[i:])
		if to > from || from-to > 7 || !bytes.Equal(is[i+4:i+20], was[i+4:i+20]) {
			t.Fatalf("bucket %d: got % x, want at most 7 below % x", i/20, is[i:i+20], was[i:i+20])
		}
	}
}
