//go:build !js

package jsbridge

import (
	"context"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var browserRun = flag.String("browser.run", ".", "which tests or benchmarks to run in the browser, as -run")

// TestInBrowser runs this package's js tests in Chromium, against a peer that
// lives here because a page cannot listen.
func TestInBrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: needs a browser")
	}
	out, err := inBrowser(t, "-test.v", "-test.timeout=3m", "-test.run="+*browserRun)
	if err != nil {
		t.Errorf("tests in the browser: %v", err)
	}
	t.Log(out)
}

// BenchmarkInBrowser runs the js benchmarks and prints their lines.
func BenchmarkInBrowser(b *testing.B) {
	out, err := inBrowser(b, "-test.run=^$", "-test.bench="+*browserRun, "-test.benchtime=3x")
	if err != nil {
		b.Errorf("benchmarks in the browser: %v", err)
	}
	b.Log(out)
	b.SkipNow() // it has no timing of its own
}

// inBrowser builds the js tests and runs them under wasmbrowsertest.
func inBrowser(tb testing.TB, args ...string) (output string, err error) {
	tb.Helper()
	runner := findRunner(tb)
	dependOnSources(tb)
	wasm := filepath.Join(tb.TempDir(), "jsbridge.wasm")
	build := exec.CommandContext(tb.Context(), "go", "test", "-c", "-o", wasm, ".")
	build.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm")
	out, err := build.CombinedOutput()
	if err != nil {
		tb.Fatalf("build the js tests: %v\n%s", err, out)
	}
	goroot, err := exec.CommandContext(tb.Context(), "go", "env", "GOROOT").Output()
	if err != nil {
		tb.Fatalf("go env GOROOT: %v", err)
	}

	ctx, cancel := context.WithTimeout(tb.Context(), 5*time.Minute)
	defer cancel()
	run := exec.CommandContext(ctx, runner, append([]string{wasm}, args...)...)
	// wasmbrowsertest hands its whole environment to the page: give it little.
	run.Env = []string{"GOROOT=" + strings.TrimSpace(string(goroot)), peerVariable + "=" + startPeer(tb)}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "WASM_HEADLESS"} {
		if value, ok := os.LookupEnv(name); ok {
			run.Env = append(run.Env, name+"="+value)
		}
	}
	out, err = run.CombinedOutput()
	var lines []string
	for line := range strings.Lines(string(out)) {
		// Its protocol package is older than the browser.
		if !strings.Contains(line, "unknown IPAddressSpace value") {
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, ""), err
}

// findRunner returns the path of wasmbrowsertest, from PATH or where make puts it.
func findRunner(tb testing.TB) string {
	tb.Helper()
	var found bool
	for _, browser := range []string{"headless-shell", "chromium", "chromium-browser", "google-chrome"} {
		if _, err := exec.LookPath(browser); err == nil {
			found = true
		}
	}
	if !found {
		tb.Fatal("no Chromium in PATH: run `make tools`, or skip with -short")
	}
	for _, name := range []string{"wasmbrowsertest", filepath.Join("..", "bin", "wasmbrowsertest")} {
		path, err := exec.LookPath(name)
		if err == nil || errors.Is(err, exec.ErrDot) {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
	}
	tb.Fatal("wasmbrowsertest is neither in PATH nor in bin/: run `make tools`, or skip with -short")
	return ""
}

// dependOnSources opens the files that only the js tests are built from: go test
// would repeat a cached result when no file of its own has changed.
func dependOnSources(tb testing.TB) {
	tb.Helper()
	files, err := filepath.Glob("*_js*.go")
	if err != nil || len(files) == 0 {
		tb.Fatalf("the js files: %v, %v", files, err)
	}
	for _, file := range append(files, filepath.Join("..", "go.mod")) {
		if _, err := os.ReadFile(file); err != nil {
			tb.Fatal(err)
		}
	}
}
