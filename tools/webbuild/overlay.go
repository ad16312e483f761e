package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// httpStub stands in for net/http in the wasm. The browser half of the WebSocket
// library names these four and calls none of them, but the linker cannot drop
// what net/http initialises, crypto above all: 40 % of the download. Should the
// library come to use more, the build fails to compile and names it.
const httpStub = `package http

// StatusSwitchingProtocols is 101 (RFC 9110 section 15.2.2).
const StatusSwitchingProtocols = 101

type (
	Response       struct{ StatusCode int }
	Request        struct{}
	ResponseWriter interface{}
)
`

// httpOverlay writes into dir what tells the go command to build httpStub in
// place of net/http, and returns the path for its -overlay flag. The toolchain
// itself stays as it is.
func httpOverlay(ctx context.Context, dir string) (string, error) {
	list := goCommand(ctx, ".", "list", "-f", `{{.Dir}}{{range .GoFiles}}{{"\n"}}{{.}}{{end}}`, "net/http")
	list.Env = wasmEnv()
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list net/http: %w", err)
	}
	stub := filepath.Join(dir, "http.go")
	if err = os.WriteFile(stub, []byte(httpStub), 0o600); err != nil {
		return "", err
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n") // a path may hold spaces
	replace := map[string]string{filepath.Join(lines[0], "stub.go"): stub}
	for _, name := range lines[1:] {
		replace[filepath.Join(lines[0], name)] = "" // as if it were not there
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o600)
}

// wasmEnv is the environment of a build for the browser.
func wasmEnv() []string { return append(os.Environ(), "GOOS=js", "GOARCH=wasm") }
