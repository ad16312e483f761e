package main

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/andybalholm/brotli"
)

// quick is for tests: nobody waits for the last percent.
var quick = level{gzip: gzip.BestSpeed, brotli: brotli.WriterOptions{Quality: 1}}

// sources lays out the least that webbuild can build, and returns its folder.
func sources(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	put(t, root, "go.mod", "module example.org/least\n\ngo 1.26\n")
	put(t, root, "wasm/main.go", "package main\n\nvar version = \"dev\"\n\nfunc main() { println(\"hub\", version) }\n")
	put(t, root, "web/package.json", `{"version": "1.2.3"}`)
	put(t, root, "web/longwire.js", "// What it is.\n"+string(devConstants.lines())+"\nexport const build = () => BUILD;\n")
	put(t, root, "web/demo.html", "<!doctype html>")
	put(t, root, "web/iterate.js", "import './longwire.js'")
	put(t, root, "web/react.js", "import './longwire.js'")
	put(t, root, "web/socket.js", "import './longwire.js'")
	put(t, root, "web/demo.js", "import { build } from './longwire.js';\nimport { named } from './demo.part.js';\nnamed(build());\nvoid import('./inspector.js');\n")
	put(t, root, "web/demo.part.js", "export const named = (what) => console.log('the demo has', what);\n")
	put(t, root, "web/demo.css", "p {\n  margin: 0;\n}\n")
	put(t, root, "web/inspector.js", "import { words } from './inspector/words.js';\n"+versionLine+"\nexport const said = words(VERSION);\n")
	put(t, root, "web/inspector/words.js", "export const words = (version) => `of ${version}`;\n")
	put(t, root, "web/types.d.ts", "export {};")
	put(t, root, "web/types.inspector.d.ts", "export {};")
	return root
}

func put(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// made builds root and returns the version and what web/dist then holds.
func made(t *testing.T, root string) (version string, contents map[string]string) {
	t.Helper()
	files, version, err := build(t.Context(), root, false, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(root, "web", "dist")
	if _, err = (dist{dir: dir, level: quick, out: io.Discard}).write(files); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	contents = map[string]string{}
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		contents[e.Name()] = string(data)
	}
	return version, contents
}

func only(t *testing.T, contents map[string]string, prefix, suffix string) string {
	t.Helper()
	var found []string
	for name := range contents {
		if strings.HasPrefix(name, prefix) && strings.HasSuffix(name, suffix) {
			found = append(found, name)
		}
	}
	if len(found) != 1 {
		t.Fatalf("files %s*%s: got %q, want one", prefix, suffix, found)
	}
	return found[0]
}

func TestBuild(t *testing.T) {
	root := sources(t)
	put(t, root, "web/dist/.gitkeep", "")
	put(t, root, "web/dist/longwire.000000000000.wasm", "of an older build")
	version, first := made(t, root)
	wasm, exec := only(t, first, "longwire.", ".wasm"), only(t, first, "wasm_exec.", ".js")

	t.Run("shim and wasm carry the version and the shim the names", func(t *testing.T) {
		if !strings.HasPrefix(version, "1.2.3+") || len(version) != len("1.2.3+01234567") {
			t.Errorf("version: got %q, want 1.2.3+ and 8 digits", version)
		}
		for _, want := range []string{version, "./" + wasm, "./" + exec} {
			if !strings.Contains(first["longwire.js"], want) {
				t.Errorf("longwire.js lacks %q:\n%s", want, first["longwire.js"])
			}
		}
		if !strings.Contains(first[wasm], version) {
			t.Errorf("%s lacks the version %q", wasm, version)
		}
	})
	t.Run("the inspector is one file and carries the version", func(t *testing.T) {
		if got := first["inspector.js"]; strings.Contains(got, "import") || !strings.Contains(got, "'"+version+"'") && !strings.Contains(got, `"`+version+`"`) {
			t.Errorf("inspector.js: want no import and the version %q:\n%s", version, got)
		}
	})
	t.Run("the demo is one file that shares the shim, and loads the inspector when it wants it", func(t *testing.T) {
		for _, want := range []string{`from"./longwire.js"`, `import("./inspector.js")`, "the demo has"} {
			if got := first["demo.js"]; !strings.Contains(got, want) {
				t.Errorf("demo.js lacks %s:\n%s", want, got)
			}
		}
	})
	t.Run("every file has variants that hold the same, and older builds are gone", func(t *testing.T) {
		var want []string
		for _, name := range []string{
			wasm, exec, "longwire.js", "longwire.js.map", "iterate.js", "react.js", "socket.js", "inspector.js", "inspector.js.map",
			"index.html", "demo.js", "demo.js.map", "demo.css", "demo.css.map", "types.d.ts", "types.inspector.d.ts",
		} {
			want = append(want, name, name+".br", name+".gz")
			if got := unbrotli(t, first[name+".br"]); got != first[name] {
				t.Errorf("%s.br holds %d bytes, want those of the file", name, len(got))
			}
			if got := ungzip(t, first[name+".gz"]); got != first[name] {
				t.Errorf("%s.gz holds %d bytes, want those of the file", name, len(got))
			}
		}
		want = append(want, ".gitkeep")
		var got []string
		for name := range first {
			got = append(got, name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("files: got %q, want %q", got, want)
		}
	})
	t.Run("an unchanged wasm is not compressed again", func(t *testing.T) {
		put(t, root, "web/dist/"+wasm+".br", "from the first build")
		again, second := made(t, root)
		if again != version || second[wasm+".br"] != "from the first build" {
			t.Errorf("got version %q and %q, want %q and the variant of the first build", again, second[wasm+".br"], version)
		}
	})
	t.Run("a change of either side changes the version of both", func(t *testing.T) {
		put(t, root, "web/longwire.js", string(devConstants.lines())+"\nexport const build = () => [BUILD];\n")
		changed, third := made(t, root)
		if changed == version || !strings.Contains(third[only(t, third, "longwire.", ".wasm")], changed) {
			t.Errorf("version after a change of the shim: got %q in %q, was %q", changed, third["longwire.js"], version)
		}
		put(t, root, "web/longwire.js", "// Another comment.\n"+string(devConstants.lines())+"\nexport const build = () => BUILD;\n")
		if back, _ := made(t, root); back != version {
			t.Errorf("version after a change of comments: got %q, want %q", back, version)
		}
	})
}

func TestBuildNamesWhatIsWrong(t *testing.T) {
	for _, tc := range []struct{ name, file, text, want string }{
		{"no version", "web/package.json", `{}`, "package.json: no version"},
		{"package.json is not JSON", "web/package.json", `{`, "package.json: unexpected end"},
		{"no constants", "web/longwire.js", "export {}", "web/longwire.js holds this 0 times, want once: const BUILD ="},
		{"constants twice", "web/longwire.js", strings.Repeat(string(devConstants.lines())+"\n", 2), "holds this 2 times"},
		{"a syntax error in the shim", "web/longwire.js", string(devConstants.lines()) + "\nexport const (", "web/longwire.js:6: Expected identifier"},
		{"an inspector without a version", "web/inspector.js", "export {}", "web/inspector.js holds this line 0 times, want once: const VERSION ="},
		{"a syntax error in the inspector", "web/inspector/words.js", "export const (", "web/inspector/words.js:1: Expected identifier"},
		{"a part of the demo that is not there", "web/demo.js", "import './demo.none.js'", `web/demo.js:1: Could not resolve "./demo.none.js"`},
		{"a Go error in the wasm", "wasm/main.go", "package main\nfunc main() { 1 }", "main.go:2:15: 1 (untyped int constant) is not used"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			root := sources(t)
			put(t, root, tc.file, tc.text)
			_, _, err := build(t.Context(), root, false, io.Discard)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestBuildStopsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := build(ctx, sources(t), false, io.Discard); err == nil {
		t.Error("got no error, want one")
	}
}

func TestTableNamesWhatIsOverItsBudget(t *testing.T) {
	var out bytes.Buffer
	got := table(&out, []size{{name: "at", brotli: 100, budget: 100}, {name: "above", brotli: 101, budget: 100}, {name: "free", brotli: 999}})
	if !slices.Equal(got, []string{"above"}) {
		t.Errorf("got %q, want only above\n%s", got, out.String())
	}
}

func unbrotli(t *testing.T, s string) string {
	t.Helper()
	return readAll(t, brotli.NewReader(strings.NewReader(s)))
}

func ungzip(t *testing.T, s string) string {
	t.Helper()
	r, err := gzip.NewReader(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	return readAll(t, r)
}

func readAll(t *testing.T, r io.Reader) string {
	t.Helper()
	data, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
