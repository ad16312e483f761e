package main

import (
	"bytes"
	"context"
	"embed"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
)

// stub holds the packages that stand in for those of the standard library.
//
//go:embed stub/fmt/fmt.go stub/godebug/godebug.go stub/http/http.go stub/net/net.go
var stub embed.FS

// standIns are the packages replaced, and by what. Each has just the names that the
// wasm's dependencies use; should these come to use more, the build fails to compile
// and names it. Which verbs of fmt they use is for a test to see.
var standIns = map[string]string{
	"fmt":              "stub/fmt/fmt.go",
	"internal/godebug": "stub/godebug/godebug.go",
	"net":              "stub/net/net.go",
	"net/http":         "stub/http/http.go",
}

// replaced is a package that has a stand-in, as the go command lists it.
type replaced struct {
	ImportPath, Dir string
	GoFiles, SFiles []string
}

// writeOverlay writes into dir what tells the go command to build the stand-ins, and
// returns the path for its -overlay flag. The toolchain itself stays as it is.
func writeOverlay(ctx context.Context, root, dir string) (string, error) {
	list := goCommand(ctx, root, append([]string{"list", "-json=ImportPath,Dir,GoFiles,SFiles"}, slices.Collect(maps.Keys(standIns))...)...)
	list.Env = wasmEnv()
	out, err := list.Output()
	if err != nil {
		return "", fmt.Errorf("go list of what has a stand-in: %w", err)
	}
	replace := map[string]string{}
	packages := json.NewDecoder(bytes.NewReader(out))
	for packages.More() {
		var p replaced
		if err = packages.Decode(&p); err != nil {
			return "", fmt.Errorf("go list of what has a stand-in: %w", err)
		}
		for _, name := range append(p.GoFiles, p.SFiles...) {
			replace[filepath.Join(p.Dir, name)] = "" // as if it were not there
		}
		var source []byte
		if source, err = stub.ReadFile(standIns[p.ImportPath]); err != nil {
			return "", err
		}
		file := filepath.Join(dir, path.Base(standIns[p.ImportPath]))
		if err = os.WriteFile(file, source, 0o600); err != nil {
			return "", err
		}
		replace[filepath.Join(p.Dir, "standin.go")] = file
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	overlay := filepath.Join(dir, "overlay.json")
	return overlay, os.WriteFile(overlay, text, 0o600)
}

var standInName = regexp.MustCompile(`\b(fmt|godebug|http|net)\.\w+`)

// standInHint says what to do about a compiler's error that names a package which
// has a stand-in.
func standInHint(text []byte) string {
	m := standInName.FindSubmatch(text)
	if m == nil {
		return ""
	}
	return fmt.Sprintf("%s: the wasm is built with a stand-in for its package; give that the name, in tools/webbuild/stub/%s, or build without stand-ins (-full)\n", m[0], m[1])
}

// wasmEnv is the environment of a build for the browser.
func wasmEnv() []string { return append(os.Environ(), "GOOS=js", "GOARCH=wasm") }
