// Package browser starts browsers for the benchmarks and reads what they use of the
// machine. No debugger is attached: through one every frame would be reported, which
// costs more than what is measured.
package browser

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// Command returns the command that opens a page with a profile of its own.
type Command func(ctx context.Context, profile, url string) *exec.Cmd

// Chromium is the one at a path.
func Chromium(path string) Command {
	return func(ctx context.Context, profile, url string) *exec.Cmd {
		return exec.CommandContext(ctx, path, "--headless", "--user-data-dir="+profile,
			"--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
			"--disable-background-networking", "--disable-component-update", "--disable-sync",
			// A page may open tabs, tell its memory and collect garbage, and there is
			// no process but those of pages.
			"--disable-popup-blocking", "--enable-precise-memory-info", "--js-flags=--expose-gc",
			"--disable-features=SpareRendererForSitePerProcess", url)
	}
}

// Firefox is the one at a path.
func Firefox(path string) Command {
	return func(ctx context.Context, profile, url string) *exec.Cmd {
		return exec.CommandContext(ctx, path, "--headless", "--no-remote", "--profile", profile, url)
	}
}

// Browser is one that runs.
type Browser struct {
	cancel  context.CancelFunc
	pid     int
	profile string
	ended   chan struct{}
	err     error // why it has ended; read it after ended
}

// Start opens url in a browser that knows nothing.
func Start(ctx context.Context, command Command, url string) (*Browser, error) {
	profile, err := os.MkdirTemp("", "longwire-bench-")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	b := &Browser{cancel: cancel, profile: profile, ended: make(chan struct{})}
	cmd := command(ctx, profile, url)
	// Debian's chromium writes into the home as well.
	cmd.Env = append(os.Environ(), "HOME="+filepath.Join(profile, "home"))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 10 * time.Second
	if err := cmd.Start(); err != nil {
		cancel()
		_ = os.RemoveAll(profile)
		return nil, err
	}
	b.pid = cmd.Process.Pid
	go func() {
		defer close(b.ended)
		b.err = fmt.Errorf("the browser has ended: %w\n%s", cmd.Wait(), stderr.Bytes())
	}()
	return b, nil
}

// Ended waits for the end of the browser and says why it has ended.
func (b *Browser) Ended() error {
	<-b.ended
	return b.err
}

// Stop ends the browser and removes all that it knows.
func (b *Browser) Stop() {
	b.cancel()
	<-b.ended
	_ = os.RemoveAll(b.profile)
}
