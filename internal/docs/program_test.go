package docs_test

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// A whole program is what a reader copies first. It is built, started and followed.
func TestProgramsRun(t *testing.T) {
	programs := slices.DeleteFunc(blocksOf(t, "go"), func(b block) bool { return !isProgram(b) })
	if len(programs) == 0 {
		t.Fatal("no program in any document")
	}
	for _, b := range programs {
		t.Run(b.String(), func(t *testing.T) {
			binary := build(t, b) // takes as long as it takes
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			site := start(ctx, t, binary)
			if page := get(ctx, t, site); !strings.Contains(page, "<script") {
				t.Errorf("the page is %.200q", page)
			}
			followClock(ctx, t, site)
		})
	}
}

// build compiles a program as if it were in this module, to listen on a free port.
func build(t *testing.T, b block) (binary string) {
	t.Helper()
	const address = `"localhost:8080"`
	if strings.Count(b.code, address) != 1 {
		t.Fatalf("%v: does not listen on %s", b, address)
	}
	dir := t.TempDir()
	source := filepath.Join(dir, "main.go")
	if err := os.WriteFile(source, []byte(strings.Replace(b.code, address, `"127.0.0.1:0"`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	binary = filepath.Join(dir, "program.exe")
	compile := exec.CommandContext(t.Context(), "go", "build", "-o", binary, source)
	compile.Dir = root
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", b, err, out)
	}
	return binary
}

var addressLine = regexp.MustCompile(`http://\S+/`)

// start runs a program until the test ends, and returns the address that it says.
func start(ctx context.Context, t *testing.T, binary string) (site string) {
	t.Helper()
	program := exec.CommandContext(ctx, binary)
	stderr, err := program.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := program.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = program.Process.Kill() // it may have ended
		_ = program.Wait()
	})
	lines := bufio.NewScanner(stderr)
	for lines.Scan() {
		if site = addressLine.FindString(lines.Text()); site != "" {
			go func() { _, _ = io.Copy(io.Discard, stderr) }() // ends with the program
			return site
		}
	}
	t.Fatal("the program has ended without an address")
	return ""
}

func get(ctx context.Context, t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close() //nolint:errcheck // nothing was written
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s, %v", url, resp.Status, err)
	}
	return string(body)
}

// followClock wants the state of the stream "time", and what comes next.
func followClock(ctx context.Context, t *testing.T, site string) {
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	heard := make(chan string, 16)
	say := func(what string) {
		select {
		case heard <- what:
		default: // enough
		}
	}
	client, err := reconnect.NewClient(reconnect.Options{
		URL: func(context.Context) (string, error) { return site + "ws", nil },
		Header: func(context.Context) (http.Header, error) {
			return http.Header{"Origin": {strings.TrimSuffix(site, "/")}}, nil // as a page of it
		},
		Probe: site + "probe",
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = client.Subscribe("time", nil, reconnect.Handler{
		Snapshot: func(reconnect.SnapshotInfo) { say("snapshot") },
		Event:    func(reconnect.EventInfo) { say("event") },
	})
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	defer running.Wait()
	ended := make(chan error, 1)
	running.Go(func() { ended <- client.Run(ctx) })
	for _, want := range []string{"snapshot", "event", "event"} {
		select {
		case got := <-heard:
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
		case err := <-ended:
			t.Fatalf("the client has ended: %v", err)
		case <-ctx.Done():
			t.Fatalf("no %s: %s", want, client.Status().Reason)
		}
	}
	cancel() // before Wait
}
