package docs_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// Each block is a module of its own. What it imports from the shim is what
// types.d.ts promises; that the shim keeps it is checked where the shim is.
func TestJavaScriptTypeChecks(t *testing.T) { typeCheck(t, true, "js", "jsx") }

// Code of other libraries is checked without their types: that it is JavaScript.
func TestJavaScriptOfOthersParses(t *testing.T) { typeCheck(t, false, "js before") }

func typeCheck(t *testing.T, strict bool, infos ...string) {
	t.Helper()
	top, err := filepath.Abs(root)
	if err != nil {
		t.Fatal(err)
	}
	tsc := filepath.Join(top, "playwright/node_modules/.bin/tsc")
	if _, err = os.Stat(tsc); err != nil {
		t.Skip("no tsc: `make lint` installs it")
	}
	dir := t.TempDir()
	write := func(name string, text []byte) {
		t.Helper()
		if failed := os.WriteFile(filepath.Join(dir, name), text, 0o600); failed != nil {
			t.Fatal(failed)
		}
	}
	page, err := os.ReadFile("testdata/page.d.ts")
	if err != nil {
		t.Fatal(err)
	}
	// tsc reads it; go test would repeat a cached result if this test did not.
	entries := make(map[string][]string)
	for entry, types := range map[string]string{
		"longwire":           "web/types.d.ts",
		"/longwire.js":       "web/types.d.ts",
		"longwire/inspector": "web/types.inspector.d.ts",
		"longwire/react":     "web/react.d.ts",
		"longwire/socket":    "web/socket.d.ts",
		"graphql-ws":         "playwright/node_modules/graphql-ws/dist/index.d.ts",
		"react":              "playwright/node_modules/@types/react/index.d.ts",
		"react/jsx-runtime":  "playwright/node_modules/@types/react/jsx-runtime.d.ts",
	} {
		path := filepath.Join(top, types)
		if _, err = os.ReadFile(path); err != nil {
			t.Fatal(err)
		}
		entries[entry] = []string{path}
	}
	write("page.d.ts", page)
	where := make(map[string]block)
	for _, info := range infos {
		for _, b := range blocksOf(t, info) {
			extension, _, _ := strings.Cut(info, " ")
			name := fmt.Sprintf("%s.%d.%s", strings.ReplaceAll(b.document, "/", "."), b.line, extension)
			where[name] = b
			write(name, []byte(b.code+"\nexport {};\n"))
		}
	}
	config, err := json.Marshal(map[string]any{
		"extends": filepath.Join(top, "tsconfig.json"),
		"include": []string{"*"},
		"compilerOptions": map[string]any{
			"jsx":                "react-jsx",
			"noImplicitAny":      strict,
			"noUnusedLocals":     false,
			"noUnusedParameters": false,
			"paths":              entries,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	write("tsconfig.json", config)
	check := exec.CommandContext(t.Context(), tsc, "--project", dir, "--pretty", "false")
	check.Dir = dir
	out, err := check.CombinedOutput()
	if err == nil {
		return
	}
	t.Error(err)
	for line := range strings.Lines(string(out)) {
		for name, b := range where {
			if rest, ok := strings.CutPrefix(line, name); ok {
				line = fmt.Sprintf("the block at %v, %s", b, rest)
			}
		}
		t.Error(strings.TrimSpace(line))
	}
}
