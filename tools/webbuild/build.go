package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/longwire/longwire/tools/gowasm"
)

// file is one that belongs into web/dist.
type file struct {
	name   string
	data   []byte
	hashed bool // the name changes with the data
	budget int  // bytes after brotli, 0: none
}

// The budgets, in bytes after brotli: that of the wasm is 3 % above what is reached.
const (
	wasmBudget = 553_000
	shimBudget = 9_000
)

// build makes the files of web/dist in memory and says which version they are.
// With full the wasm is as Go makes it.
func build(ctx context.Context, root string, full bool, out io.Writer) (files []file, version string, err error) {
	number, err := packageVersion(filepath.Join(root, "web", "package.json"))
	if err != nil {
		return nil, "", err
	}
	loader, err := wasmExec(ctx)
	if err != nil {
		return nil, "", err
	}

	// The version names what it stands in: built once without a version, the
	// outputs hold every input that matters, the toolchain included.
	fmt.Fprintln(out, "building wasm/ for js/wasm")
	wasm, err := buildWasm(ctx, root, "dev", full)
	if err != nil {
		return nil, "", err
	}
	shim, _, err := buildShim(root, devConstants)
	if err != nil {
		return nil, "", err
	}
	version = number + "+" + hash(wasm, loader, shim)[:8]

	if wasm, err = buildWasm(ctx, root, version, full); err != nil {
		return nil, "", err
	}
	c := constants{
		Version: version,
		Wasm:    "./longwire." + hash(wasm)[:12] + ".wasm",
		Exec:    "./wasm_exec." + hash(loader)[:12] + ".js",
	}
	shim, sourceMap, err := buildShim(root, c)
	if err != nil {
		return nil, "", err
	}
	budget := wasmBudget
	if full {
		budget = 0
	}
	files = []file{
		{name: filepath.Base(c.Wasm), data: wasm, hashed: true, budget: budget},
		{name: filepath.Base(c.Exec), data: loader, hashed: true},
		{name: shimName, data: shim, budget: shimBudget},
		{name: shimName + ".map", data: sourceMap},
	}
	page, err := pageFiles(root, version)
	if err != nil {
		return nil, "", err
	}
	plain, err := plainFiles(root)
	return append(append(files, page...), plain...), version, err
}

// packageVersion reads the version of the npm package.
func packageVersion(path string) (string, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	var p struct{ Version string }
	if err := json.Unmarshal(data, &p); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	if p.Version == "" {
		return "", fmt.Errorf("%s: no version", path)
	}
	return p.Version, nil
}

// wasmExec is the loader of the toolchain that builds the wasm: the two only fit
// each other.
func wasmExec(ctx context.Context) ([]byte, error) {
	goroot, err := goCommand(ctx, ".", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env GOROOT: %w", err)
	}
	return os.ReadFile(filepath.Join(strings.TrimSpace(string(goroot)), "lib", "wasm", "wasm_exec.js"))
}

// uninlined are the packages that are compiled without inlining: it makes them
// smaller, by 9 kB after brotli, and what an event costs in them differs by less
// than runs do. In wire, whose scanner looks at every byte, it does differ.
var uninlined = []string{"jsbridge", "reconnect", "wasm", "wasm/hub"}

// buildWasm makes the hub. Unless it is to be full, parts of the standard library
// are replaced by stand-ins, ours is not inlined, and what only tracebacks need is
// taken out: see overlay.go and tools/gowasm.
func buildWasm(ctx context.Context, root, version string, full bool) ([]byte, error) {
	dir, err := os.MkdirTemp("", "longwire-webbuild-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	target := filepath.Join(dir, "longwire.wasm")
	// Nothing of the machine or the commit goes in, so equal sources give equal bytes.
	args := []string{
		"build", "-trimpath", "-buildvcs=false",
		"-ldflags", "-s -w -buildid= -X main.version=" + version, "-o", target,
	}
	if !full {
		var overlay string
		if overlay, err = writeOverlay(ctx, root, dir); err != nil {
			return nil, err
		}
		args = append(args, "-overlay", overlay)
		for _, name := range uninlined {
			args = append(args, "-gcflags=github.com/longwire/longwire/"+name+"=-l")
		}
	}
	cmd := goCommand(ctx, root, append(args, "./wasm")...)
	cmd.Env = wasmEnv()
	text, err := cmd.CombinedOutput()
	if err != nil {
		if !full {
			text = append(text, standInHint(text)...)
		}
		return nil, fmt.Errorf("go build ./wasm: %w\n%s", err, text)
	}
	wasm, err := os.ReadFile(target)
	if err != nil || full {
		return wasm, err
	}
	return gowasm.Slim(wasm)
}

func goCommand(ctx context.Context, dir string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	return cmd
}

// hash is the SHA-256 over all parts, each with its length, in hexadecimal.
func hash(parts ...[]byte) string {
	h := sha256.New()
	for _, part := range parts {
		fmt.Fprintf(h, "%d:", len(part))
		_, _ = h.Write(part)
	}
	return hex.EncodeToString(h.Sum(nil))
}
