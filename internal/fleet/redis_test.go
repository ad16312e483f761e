//go:build unix

package fleet_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/longwire/longwire/internal/redistest"
)

// A redis is a real server, to be stopped, killed and paused as a process.
type redis struct {
	t    *testing.T
	dir  string
	port int
	cmd  *exec.Cmd
	log  *output
}

// startRedis runs a Redis that keeps what it has confirmed, until the end of the test.
func startRedis(t *testing.T) *redis {
	t.Helper()
	redistest.Require(t)
	r := &redis{t: t, dir: t.TempDir(), port: redistest.FreePort(t), log: new(output)}
	r.start()
	t.Cleanup(func() {
		_ = r.cmd.Process.Kill()
		_ = r.cmd.Wait()
		if t.Failed() {
			t.Logf("redis-server:\n%s", last(r.log.String(), 3000))
		}
	})
	return r
}

func (r *redis) url() string { return fmt.Sprintf("redis://127.0.0.1:%d", r.port) }

func (r *redis) start() {
	r.t.Helper()
	r.cmd = exec.CommandContext(context.WithoutCancel(r.t.Context()), "redis-server",
		"--bind", "127.0.0.1", "--port", fmt.Sprint(r.port), "--dir", r.dir,
		"--save", "", "--appendonly", "yes", "--appendfsync", "everysec", "--enable-debug-command", "yes")
	r.cmd.Stdout, r.cmd.Stderr = r.log, r.log
	endWithParent(r.cmd)
	if err := r.cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	eventually(r.t, "redis-server answers", func() bool {
		out, err := r.tryCLI("PING")
		return err == nil && out == "PONG"
	})
}

// stop ends Redis politely, so that it has written everything.
func (r *redis) stop() {
	r.t.Helper()
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		r.t.Fatal(err)
	}
	if err := r.cmd.Wait(); err != nil {
		r.t.Fatalf("redis-server ended with %v", err)
	}
}

// kill ends Redis as a crash does: what it confirmed in the last second may be lost.
func (r *redis) kill() {
	r.t.Helper()
	r.signal(syscall.SIGKILL)
	_ = r.cmd.Wait() // killed
}

// forget removes the data. Redis must have been stopped.
func (r *redis) forget() {
	r.t.Helper()
	if err := os.RemoveAll(r.dir + "/appendonlydir"); err != nil {
		r.t.Fatal(err)
	}
}

// pause stops Redis in the middle of whatever it does, and resume makes it go on.
func (r *redis) pause()  { r.signal(syscall.SIGSTOP) }
func (r *redis) resume() { r.signal(syscall.SIGCONT) }

func (r *redis) signal(s os.Signal) {
	r.t.Helper()
	if err := r.cmd.Process.Signal(s); err != nil {
		r.t.Fatal(err)
	}
}

func (r *redis) tryCLI(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	args = append([]string{"-p", fmt.Sprint(r.port)}, args...)
	out, err := exec.CommandContext(ctx, "redis-cli", args...).CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

// cli runs a command that must succeed.
func (r *redis) cli(args ...string) string {
	r.t.Helper()
	out, err := r.tryCLI(args...)
	if err != nil {
		r.t.Fatalf("redis-cli %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return out
}
