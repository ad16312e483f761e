//go:build unix

package fleet_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long a test waits for what must happen.
const patience = 60 * time.Second

// built is where binary builds to.
var built string

func TestMain(m *testing.M) {
	var err error
	if built, err = os.MkdirTemp("", "longwire-fleet-"); err != nil {
		panic(err)
	}
	code := m.Run()
	if err := os.RemoveAll(built); err != nil {
		panic(err)
	}
	os.Exit(code)
}

// binary builds the command, once, and returns its path.
var binary = sync.OnceValues(func() (string, error) {
	path := filepath.Join(built, "longwire")
	out, err := exec.CommandContext(context.Background(), "go", "build", "-o", path, "github.com/longwire/longwire/cmd/longwire").CombinedOutput()
	if err != nil {
		err = fmt.Errorf("go build: %w\n%s", err, out)
	}
	return path, err
})

// A process is longwire serve, on a port of its own. As the port of one that has
// ended can be anybody's, the next process takes another one, and the balancer is told.
type process struct {
	t     *testing.T
	cmd   *exec.Cmd
	base  string // http://host:port
	addr  string // host:port
	log   *output
	ended chan struct{} // closed when it has
	err   error         // of its end

	mu   sync.Mutex
	told time.Time // to end; zero before
}

// output collects what a process says.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("verb=publish")) {
		return len(b), nil // there are many
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// start runs a server until the end of the test. What it logged is shown when the
// test fails.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p, err := tryStart(t, args...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// tryStart is start from any goroutine.
func tryStart(t *testing.T, args ...string) (*process, error) {
	t.Helper()
	path, err := binary()
	if err != nil {
		return nil, err
	}
	p := &process{t: t, log: new(output), ended: make(chan struct{})}
	args = append([]string{"serve", "-addr", "127.0.0.1:0", "-no-origin", "-faults"}, args...)
	p.cmd = exec.CommandContext(context.WithoutCancel(t.Context()), path, args...)
	p.cmd.Stderr = p.log
	endWithParent(p.cmd)
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	line, readErr := bufio.NewReader(out).ReadString('\n')
	go func() {
		p.err = p.cmd.Wait()
		close(p.ended)
	}()
	t.Cleanup(func() {
		p.kill()
		if t.Failed() {
			t.Logf("longwire %s:\n%s", strings.Join(args, " "), last(p.log.String(), 4000))
		}
	})
	if readErr != nil {
		<-p.ended
		return nil, fmt.Errorf("longwire serve ended with %w: %s", p.err, last(p.log.String(), 300))
	}
	p.base = strings.TrimSuffix(line, "/\n")
	p.addr = strings.TrimPrefix(p.base, "http://")
	return p, nil
}

// last returns the end of a text, in whole lines of at most n bytes.
func last(text string, n int) string {
	if len(text) <= n {
		return text
	}
	text = text[len(text)-n:]
	return "…" + text[strings.IndexByte(text, '\n')+1:]
}

// signal sends a signal that ends the process.
func (p *process) signal(s os.Signal) {
	p.mu.Lock()
	if p.told.IsZero() {
		p.told = time.Now()
	}
	p.mu.Unlock()
	if err := p.cmd.Process.Signal(s); err != nil && !errors.Is(err, os.ErrProcessDone) {
		p.t.Errorf("signal %v: %v", s, err)
	}
}

// drain asks the process to end, as its supervisor does.
func (p *process) drain() { p.signal(syscall.SIGTERM) }

// toldToEnd reports when the process was.
func (p *process) toldToEnd() (at time.Time, told bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.told, !p.told.IsZero()
}

// kill ends the process as a crash does, and waits.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.ended
}

// stop drains the process and waits. It must end well.
func (p *process) stop() {
	p.t.Helper()
	p.drain()
	select {
	case <-p.ended:
	case <-time.After(patience):
		p.t.Fatal("longwire serve did not end")
	}
	if p.err != nil {
		p.t.Errorf("longwire serve ended with %v", p.err)
	}
}

// A statusError is an answer other than 200.
type statusError struct {
	status int
	body   string
}

func (e *statusError) Error() string { return fmt.Sprintf("status %d: %s", e.status, e.body) }

// request sends a request and decodes the answer, if into is not nil.
func (p *process) request(ctx context.Context, method, path string, into any) error {
	req, err := http.NewRequestWithContext(ctx, method, p.base+path, http.NoBody)
	if err != nil {
		return err
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK:
		return &statusError{res.StatusCode, strings.TrimSpace(string(body))}
	case into == nil:
		return nil
	}
	return json.Unmarshal(body, into)
}

// isReady asks the readiness, as a balancer does.
func (p *process) isReady(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return p.request(ctx, http.MethodGet, "/ready", nil) == nil
}

// awaitReady waits until the process takes clients.
func (p *process) awaitReady() {
	p.t.Helper()
	eventually(p.t, "ready", func() bool { return p.isReady(p.t.Context()) })
}

// eventually looks again and again until it is done.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", patience, what)
		}
		time.Sleep(20 * time.Millisecond)
	}
}
