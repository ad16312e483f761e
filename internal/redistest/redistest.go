// Package redistest runs real Redis servers for tests.
package redistest

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Server is a redis-server of the test's own. It ends with the test, and with the
// process that runs the test, however that ends.
type Server struct {
	tb       testing.TB
	args     []string
	dir      string
	port     int
	bus      int // of a Cluster, 0 if it is of none
	tls      *tls.Config
	sentinel string // configuration, if it is one

	client *redis.Client // of the test itself
	stdin  io.Closer     // closing it ends the server
	cmd    *exec.Cmd
	output *os.File
}

// patience is how long a server may take to start on a busy machine.
const patience = time.Minute

// Start starts a redis-server on a free port of 127.0.0.1. args are options as its
// command line takes them. It writes to disk only in Restart. Where no redis-server is
// installed the test is skipped, but not in CI.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return StartTLS(tb, nil, args...)
}

// StartTLS is Start for a server that speaks TLS, for which args name certificate and
// key. config is the test's own side of it.
func StartTLS(tb testing.TB, config *tls.Config, args ...string) *Server {
	tb.Helper()
	return start(tb, &Server{tb: tb, args: args, tls: config})
}

func start(tb testing.TB, s *Server) *Server {
	tb.Helper()
	Require(tb)
	s.dir = tb.TempDir()
	tb.Cleanup(func() {
		s.Stop()
		if s.client != nil {
			_ = s.client.Close() // the server is gone
		}
	})
	// Another process may take a port between its choice and the start.
	var err error
	for range 5 {
		s.port = FreePort(tb)
		if s.bus != 0 {
			s.bus = FreePort(tb)
		}
		if err = s.start(); err == nil {
			return s
		}
	}
	tb.Fatalf("redistest: redis-server does not start: %v", err)
	return nil
}

// StartSentinel starts a Sentinel that watches over a primary.
func StartSentinel(tb testing.TB, name string, primary *Server) *Server {
	tb.Helper()
	config := filepath.Join(tb.TempDir(), "sentinel.conf")
	text := fmt.Sprintf("sentinel monitor %s 127.0.0.1 %d 1\nsentinel down-after-milliseconds %s 1000\n", name, primary.port, name)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		tb.Fatal(err)
	}
	return start(tb, &Server{tb: tb, sentinel: config})
}

// Require skips the test where no redis-server is installed, but not in CI.
func Require(tb testing.TB) {
	tb.Helper()
	if _, err := exec.LookPath("redis-server"); err != nil {
		if os.Getenv("CI") != "" {
			tb.Fatalf("redistest: redis-server is not installed: %v", err)
		}
		tb.Skip("redistest: redis-server is not installed")
	}
}

// firstPort is the first of the ports that FreePort gives. They, and those that stand for
// them, are below the ones that systems give to connections and to listeners that want any.
const (
	firstPort = 20_000
	manyPorts = 6_000
)

// FreePort returns a port of 127.0.0.1 that nobody listens on. Until the test ends nobody
// else is given it, in no process: not while its server is down either.
func FreePort(tb testing.TB) int {
	tb.Helper()
	for {
		port := firstPort + rand.IntN(manyPorts)
		claim, err := listen(port + manyPorts)
		if err != nil {
			continue // it is somebody else's
		}
		l, err := listen(port)
		if err != nil {
			_ = claim.Close() // nothing was sent
			continue
		}
		_ = l.Close() // nothing was sent
		tb.Cleanup(func() { _ = claim.Close() })
		return port
	}
}

func listen(port int) (net.Listener, error) {
	return (&net.ListenConfig{}).Listen(context.Background(), "tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
}

func (s *Server) start() error {
	output, err := os.OpenFile(filepath.Join(s.dir, "output"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// The shell ends the server when this process has ended.
	const script = `redis-server "$@" </dev/null & read -r _; kill -9 $!; wait $!`
	port := []string{"--port", s.portText()}
	if s.tls != nil {
		port = []string{"--port", "0", "--tls-port", s.portText()}
	}
	args := slices.Concat([]string{
		"-c", script, "redis-server", "--bind", "127.0.0.1", "--dir", s.dir, "--save", "", "--appendonly", "no",
		"--repl-diskless-sync-delay", "0",
	}, port, s.args)
	if s.bus != 0 {
		args = append(args, "--cluster-enabled", "yes", "--cluster-port", strconv.Itoa(s.bus), "--cluster-node-timeout", "5000")
	}
	if s.sentinel != "" {
		args = []string{"-c", script, "redis-server", s.sentinel, "--sentinel", "--port", s.portText(), "--bind", "127.0.0.1"}
	}
	s.cmd = exec.CommandContext(context.Background(), "/bin/sh", args...) //nolint:gosec // the test's own
	s.cmd.Stdout, s.cmd.Stderr, s.output = output, output, output
	if s.stdin, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	said, err := output.Seek(0, io.SeekEnd) // by those before it
	if err != nil {
		return err
	}
	if err = s.cmd.Start(); err != nil {
		return err
	}
	return s.await(said)
}

// await returns when the server answers: this one, not another that has taken the port.
func (s *Server) await(said int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for {
		text, err := os.ReadFile(s.output.Name())
		text = text[min(int(said), len(text)):]
		reply := ""
		if listens.Match(text) {
			reply, err = s.ping(ctx)
			if err == nil && !strings.HasPrefix(reply, "-LOADING") {
				return nil // it may want a password
			}
		}
		if bytes.Contains(text, []byte("Failed listening")) {
			s.kill()
			return fmt.Errorf("port %d: %s", s.port, text)
		}
		select {
		case <-ctx.Done():
			s.kill()
			return fmt.Errorf("port %d: %w: %s\n%s", s.port, errors.Join(ctx.Err(), err), reply, text)
		case <-time.After(10 * time.Millisecond): //nolint:forbidigo // asks again
		}
	}
}

// listens matches what a server says, or a Sentinel, when it has its port.
var listens = regexp.MustCompile(`Ready to accept connections|Sentinel ID is`)

func (s *Server) ping(ctx context.Context) (reply string, err error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var conn net.Conn
	if s.tls == nil {
		conn, err = new(net.Dialer).DialContext(ctx, "tcp", s.Addr())
	} else {
		conn, err = (&tls.Dialer{Config: s.tls}).DialContext(ctx, "tcp", s.Addr())
	}
	if err != nil {
		return "", err
	}
	defer conn.Close() //nolint:errcheck // it was for one question
	deadline, _ := ctx.Deadline()
	_ = conn.SetDeadline(deadline) // a failure shows below
	if _, err = io.WriteString(conn, "PING\r\n"); err != nil {
		return "", err
	}
	return bufio.NewReader(conn).ReadString('\n')
}

func (s *Server) kill() {
	_ = s.stdin.Close()
	_ = s.cmd.Wait() // it was killed
	_ = s.output.Close()
	s.cmd = nil
}

// Stop kills the server. What it held is lost.
func (s *Server) Stop() {
	if s.cmd != nil {
		s.kill()
	}
}

// Restart kills the server, if it runs, and starts it on the same port: with what it
// held, or with nothing.
func (s *Server) Restart(keepData bool) {
	s.tb.Helper()
	dump := filepath.Join(s.dir, "dump.rdb")
	if keepData {
		s.Do("SAVE")
	} else if err := os.Remove(dump); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.tb.Fatal(err)
	}
	s.Stop()
	s.Resume()
}

// Resume starts a server that was stopped, on the same port, with what it last wrote
// to disk.
func (s *Server) Resume() {
	s.tb.Helper()
	if err := s.start(); err != nil {
		s.tb.Fatalf("redistest: redis-server does not start again: %v", err)
	}
}

// Addr returns the address that the server listens on.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", s.portText()) }

func (s *Server) portText() string { return strconv.Itoa(s.port) }

// URL returns the address as redis:// or rediss://.
func (s *Server) URL() string {
	if s.tls != nil {
		return "rediss://" + s.Addr()
	}
	return "redis://" + s.Addr()
}

// Client returns a client of the test itself, as the default user.
func (s *Server) Client() *redis.Client {
	if s.client == nil {
		s.client = redis.NewClient(&redis.Options{Addr: s.Addr(), TLSConfig: s.tls, Protocol: 2, ClientName: "test", MaxRetries: 10})
	}
	return s.client
}

// Do runs a command and returns its answer. An error ends the test.
func (s *Server) Do(args ...any) any {
	s.tb.Helper()
	reply, err := s.Client().Do(context.Background(), args...).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		s.tb.Fatalf("redistest: %v: %v", args, err)
	}
	return reply
}
