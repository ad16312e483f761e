package docs_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/format"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// standard are the packages of the standard library that blocks use without saying
// so, beside those of this module.
var standard = []string{
	"context", "encoding/json", "errors", "fmt", "log", "log/slog", "net", "net/http", "os", "os/signal", "sync",
	"syscall", "time",
}

// importable returns the paths of what a block may use.
func importable(t *testing.T) []string {
	t.Helper()
	ours := goList(t, "./reconnect", "./server/...", "./stream", "./web", "./wire")
	return append(ours, standard...)
}

func TestGoCompiles(t *testing.T) {
	imported := importable(t)
	exports := exportsOf(t, imported)
	application, err := os.ReadFile("testdata/application.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocksOf(t, "go") {
		if formatted, err := format.Source([]byte(b.code)); err == nil && string(formatted) != b.code {
			t.Errorf("%v: gofmt wants\n%s", b, formatted)
		}
		t.Run(b.String(), func(t *testing.T) {
			fset := token.NewFileSet()
			files := []*ast.File{parseBlock(t, fset, b, imported)}
			if !isProgram(b) {
				file, err := parser.ParseFile(fset, "application.go", application, 0)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, file)
			}
			check(t, fset, files, exports)
		})
	}
}

// Code of other libraries is not compiled, but it should look like code.
func TestGoOfOthersParses(t *testing.T) {
	for _, b := range blocksOf(t, "go before") {
		parseBlock(t, token.NewFileSet(), b, nil)
	}
}

func isProgram(b block) bool { return strings.HasPrefix(b.code, "package main\n") }

// parseBlock parses a whole file, declarations, or statements. Positions are those
// of the document.
func parseBlock(t *testing.T, fset *token.FileSet, b block, imported []string) *ast.File {
	t.Helper()
	position := fmt.Sprintf("//line %s:%d\n", b.document, b.line)
	if isProgram(b) {
		file, err := parser.ParseFile(fset, "", position+b.code, 0)
		if err != nil {
			t.Fatal(err)
		}
		return file
	}
	var head bytes.Buffer
	fmt.Fprintln(&head, "package application")
	for _, path := range imported {
		fmt.Fprintf(&head, "import %q\n", path)
	}
	file, err := parser.ParseFile(fset, "", head.String()+position+b.code, 0)
	if err == nil {
		return file
	}
	file, asStatements := parser.ParseFile(fset, "", head.String()+"func _() error {\n"+position+b.code+"\npanic(0)\n}", 0)
	if asStatements != nil {
		t.Fatalf("neither declarations: %v\nnor statements: %v", err, asStatements)
	}
	return file
}

// check type-checks a package. That something is not used is no fault of a fragment.
func check(t *testing.T, fset *token.FileSet, files []*ast.File, exports map[string]string) {
	t.Helper()
	config := types.Config{
		Importer: importer.ForCompiler(fset, "gc", func(path string) (io.ReadCloser, error) {
			if exports[path] == "" {
				return nil, fmt.Errorf("package %s is not among those that documents may use", path)
			}
			return os.Open(exports[path])
		}),
		Error: func(err error) {
			if e, ok := err.(types.Error); !ok || !e.Soft { //nolint:errorlint // go/types wraps nothing
				t.Error(err)
			}
		},
	}
	_, _ = config.Check("application", fset, files, nil) // every error was reported
}

// exportsOf returns the files in which the compiler has put what each package, and
// what it imports, exports.
func exportsOf(t *testing.T, packages []string) map[string]string {
	t.Helper()
	exports := make(map[string]string)
	for _, line := range goList(t, append([]string{"-export", "-deps", "-f", "{{if .Export}}{{.ImportPath}} {{.Export}}{{end}}"}, packages...)...) {
		path, file, _ := strings.Cut(line, " ")
		exports[path] = file
	}
	return exports
}

// goList returns the lines of go list in the root of the module.
func goList(t *testing.T, args ...string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), "go", append([]string{"list"}, args...)...)
	list.Dir = root
	list.Stderr = os.Stderr
	out, err := list.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}
