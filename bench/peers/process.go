package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"time"

	"github.com/prometheus/procfs"
)

// children are what this program is when it was started from itself.
var children = map[string]func(args []string) error{
	"host":    runHost,
	"clients": runClients,
}

// process is a child that reads lines of JSON and writes them.
type process struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	tell *json.Encoder
	said *json.Decoder
}

// start runs this program as a child, or a script in Node.
func start(ctx context.Context, o *options, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if children[args[0]] == nil {
		self = "node"
	}
	p := &process{cmd: exec.CommandContext(ctx, self, args...)} //nolint:gosec // ourselves, or our script
	p.cmd.Dir = o.dir
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.tell, p.said = json.NewEncoder(p.in), json.NewDecoder(bufio.NewReader(out))
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %q: %w", args, err)
	}
	return p, nil
}

// kill ends the child as a crash does.
func (p *process) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	_ = p.in.Close()
	_ = p.cmd.Wait() // it was killed
}

// host is the process of a server.
type host struct {
	*process

	port int
}

func startHost(ctx context.Context, o *options, w way, port int, origins []string) (*host, error) {
	args := []string{"host", w.host, strconv.Itoa(port)}
	if w.host == hostSocketIO {
		args = []string{"socket.io.js", strconv.Itoa(port), strconv.Itoa(len(filling))}
	} else {
		args = append(args, origins...)
	}
	p, err := start(ctx, o, args...)
	if err != nil {
		return nil, err
	}
	var hello greeting
	if err := p.said.Decode(&hello); err != nil {
		p.kill()
		return nil, fmt.Errorf("the server %s did not start: %w", w.host, err)
	}
	return &host{p, hello.Port}, nil
}

func (h *host) url() string { return "http://127.0.0.1:" + strconv.Itoa(h.port) }

// publish publishes n events.
func (h *host) publish(n int) error { return h.tell.Encode(command{Publish: n}) }

// handshakes are those so far.
func (h *host) handshakes() (int64, error) {
	if err := h.tell.Encode(command{}); err != nil {
		return 0, err
	}
	var c counts
	err := h.said.Decode(&c)
	return c.Handshakes, err
}

// sockets counts the connections that clients have.
func (h *host) sockets() (n int, err error) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, err
	}
	all, err := proc.NetTCP() //nolint:staticcheck // slow with many connections, and there are few
	if err != nil {
		return 0, err
	}
	const established = 1
	for _, line := range all {
		if line.St == established && line.LocalPort == uint64(h.port) { //nolint:gosec // a port
			n++
		}
	}
	return n, nil
}

// publishEvery publishes one event at each tick, until ctx ends.
func (h *host) publishEvery(ctx context.Context, interval time.Duration) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := h.publish(1); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}
