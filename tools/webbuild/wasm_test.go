package main

import (
	"bytes"
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// allowed is what the wasm may import, ours apart, and Go's internal packages. Each
// package costs every page its bytes (make size prints them), encoding/json 250 kB.
// It is for what is worth that.
var allowed = []string{
	"bytes",
	"cmp",
	"context",
	"encoding/binary", // named by coder/websocket, but nothing of it stays
	"errors",
	"fmt", // the stand-in
	"github.com/coder/websocket",
	"github.com/coder/websocket/internal/bpool",
	"github.com/coder/websocket/internal/wsjs",
	"github.com/hack-pad/safejs",
	"github.com/hack-pad/safejs/internal/catch",
	"github.com/hack-pad/safejs/internal/stackerr",
	"io",
	"iter",
	"maps",
	"math",
	"math/bits",
	"net",      // the stand-in
	"net/http", // the stand-in
	"reflect",
	"runtime",
	"slices",
	"strconv",
	"strings",
	"sync",
	"sync/atomic",
	"syscall",
	"syscall/js",
	"time",
	"unicode",
	"unicode/utf16",
	"unicode/utf8",
	"unsafe",
}

// dependency is a package in the wasm, as the go command lists it.
type dependency struct {
	ImportPath, Dir string
	Standard        bool
	GoFiles         []string
	Imports         []string
}

func dependencies(t *testing.T) []dependency {
	t.Helper()
	root := filepath.Join("..", "..")
	overlay, err := writeOverlay(t.Context(), root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	list := goCommand(t.Context(), root, "list", "-deps", "-overlay", overlay, "-json=ImportPath,Dir,Standard,GoFiles,Imports", "./wasm")
	list.Env = wasmEnv()
	out, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []dependency
	packages := json.NewDecoder(bytes.NewReader(out))
	for packages.More() {
		var d dependency
		if err := packages.Decode(&d); err != nil {
			t.Fatal(err)
		}
		all = append(all, d)
	}
	return all
}

func TestWasmImportsOnlyWhatIsAllowed(t *testing.T) {
	all := dependencies(t)
	var got []string
	for _, d := range all {
		if d.Standard && strings.HasPrefix(d.ImportPath, "internal/") || strings.HasPrefix(d.ImportPath, "github.com/longwire/longwire/") {
			continue
		}
		got = append(got, d.ImportPath)
		if !slices.Contains(allowed, d.ImportPath) {
			var by []string
			for _, other := range all {
				if slices.Contains(other.Imports, d.ImportPath) {
					by = append(by, other.ImportPath)
				}
			}
			t.Errorf("the wasm imports %s, which is not allowed, through %q", d.ImportPath, by)
		}
	}
	for _, name := range allowed {
		if !slices.Contains(got, name) {
			t.Errorf("%s is allowed, and the wasm does not import it", name)
		}
	}
}

// The compiler sees when a stand-in lacks a name; that fmt's lacks a verb shows here.
func TestStandInForFmtKnowsTheVerbs(t *testing.T) {
	known := regexp.MustCompile(`^%(\+v|[vsqdw%])`)
	count := 0
	for _, d := range dependencies(t) {
		if d.Standard || !slices.Contains(d.Imports, "fmt") {
			continue
		}
		for _, name := range d.GoFiles {
			for at, format := range formats(t, filepath.Join(d.Dir, name)) {
				count++
				if strings.Count(format, "%w") > 1 {
					t.Errorf("%s: %q wraps more than one error, which the stand-in does not know", at, format)
				}
				for rest := format; ; {
					i := strings.IndexByte(rest, '%')
					if i < 0 {
						break
					}
					verb := known.FindString(rest[i:])
					if verb == "" {
						t.Errorf("%s: %q has a verb, at %q, that the stand-in does not know", at, format, rest[i:])
						break
					}
					rest = rest[i+len(verb):]
				}
			}
		}
	}
	if count < 20 {
		t.Errorf("formats: found %d, want the 20 and more that there are", count)
	}
}

// formats are those that a file gives to fmt, by where they are.
func formats(t *testing.T, path string) map[string]string {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		function, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		index, formatted := map[string]int{"Errorf": 0, "Sprintf": 0, "Fprintf": 1}[function.Sel.Name]
		if name, isName := function.X.(*ast.Ident); !isName || name.Name != "fmt" || !formatted {
			return true
		}
		at := files.Position(call.Pos()).String()
		literal, ok := call.Args[index].(*ast.BasicLit)
		if !ok {
			t.Errorf("%s: the format is not a literal, so nobody knows its verbs", at)
			return true
		}
		if found[at], err = strconv.Unquote(literal.Value); err != nil {
			t.Fatal(err)
		}
		return true
	})
	return found
}

func TestFullBuildIsAsGoMakesIt(t *testing.T) {
	root := sources(t)
	wasm := map[bool][]byte{}
	for _, full := range []bool{false, true} {
		files, _, err := build(t.Context(), root, full, io.Discard)
		if err != nil {
			t.Fatal(err)
		}
		wasm[full] = files[0].data
		if limited := files[0].budget > 0; limited == full {
			t.Errorf("full %t: budget %d", full, files[0].budget)
		}
	}
	for _, text := range []string{"main.main", "runtime.gopanic"} {
		for full := range wasm {
			if !bytes.Contains(wasm[full], []byte(text)) {
				t.Errorf("full %t: the wasm lacks %q", full, text)
			}
		}
	}
	for _, text := range []string{"example.org/least/wasm/main.go", "runtime/panic.go"} {
		if !bytes.Contains(wasm[true], []byte(text)) || bytes.Contains(wasm[false], []byte(text)) {
			t.Errorf("want %q in the full wasm, and only there", text)
		}
	}
}

func TestBuildSaysWhatAStandInLacks(t *testing.T) {
	root := sources(t)
	put(t, root, "wasm/main.go", "package main\n\nimport \"net/http\"\n\nvar version string\n\nfunc main() { http.Get(version) }\n")
	_, _, err := build(t.Context(), root, false, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "undefined: http.Get") || !strings.Contains(err.Error(), "tools/webbuild/stub/http") {
		t.Errorf("got error %v, want one that names http.Get and where its stand-in is", err)
	}
}
