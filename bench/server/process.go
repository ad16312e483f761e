//go:build linux

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/rpc"
	"net/rpc/jsonrpc"
	"os"
	"os/exec"
)

// children are what this program is when it was started from itself: each answers
// calls on its standard input and output until that ends.
var children = map[string]func(args []string) error{
	"host":  runHost,
	"crowd": runCrowd,
}

// receiptsFD is the pipe on which a crowd tells its host what has arrived.
const receiptsFD = 3

type stdio struct {
	io.ReadCloser
	io.WriteCloser
}

func (s stdio) Close() error { return errors.Join(s.ReadCloser.Close(), s.WriteCloser.Close()) }

// answerCalls serves the methods of service, as name, on the standard input and
// output.
func answerCalls(name string, service any) error {
	server := rpc.NewServer()
	if err := server.RegisterName(name, service); err != nil {
		return err
	}
	server.ServeCodec(jsonrpc.NewServerCodec(stdio{os.Stdin, os.Stdout}))
	return nil
}

// process is a child.
type process struct {
	name   string
	cmd    *exec.Cmd
	client *rpc.Client
}

// start runs this program as a child with the file as its receiptsFD.
func start(ctx context.Context, receipts *os.File, args ...string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, args...) //nolint:gosec // ourselves
	cmd.Stderr = os.Stderr
	cmd.ExtraFiles = []*os.File{receipts}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &process{name: args[0], cmd: cmd, client: jsonrpc.NewClient(stdio{out, in})}, nil
}

// call calls a method of a child and waits for its result.
func call[R any](ctx context.Context, p *process, method string, args any) (result R, err error) {
	c := p.client.Go(p.name+"."+method, args, &result, make(chan *rpc.Call, 1))
	select {
	case <-c.Done:
		if c.Error != nil {
			return result, fmt.Errorf("%s: %s: %w", p.name, method, c.Error)
		}
		return result, nil
	case <-ctx.Done():
		return result, ctx.Err()
	}
}

// do calls a method that has no result.
func do(ctx context.Context, p *process, method string, args any) error {
	_, err := call[struct{}](ctx, p, method, args)
	return err
}

// stop ends the child and notes what it has used.
func (p *process) stop(b *bench) {
	_ = p.client.Close() // ends its standard input, and so the child
	_ = p.cmd.Wait()     // how it ended changes nothing any more
	b.used += p.cmd.ProcessState.UserTime() + p.cmd.ProcessState.SystemTime()
}

// pair is a server and its clients.
type pair struct {
	kind        string
	addr        string
	host, crowd *process
}

// settings are those of a server in which it differs from the defaults.
type settings struct {
	// A quiet one does not look after idle connections, so as not to disturb the
	// measurement of another.
	Quiet bool
	// Events is how many a log of Longwire's retains, whatever their size and age, 0:
	// the defaults.
	Events int
}

// startPair starts a server of the kind, and a process for its clients.
func startPair(ctx context.Context, b *bench, kind string, set settings) (_ *pair, err error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer func() { _, _ = r.Close(), w.Close() }() // the children have their own
	p := &pair{kind: kind}
	text, err := json.Marshal(set)
	if err != nil {
		return nil, err
	}
	if p.host, err = start(ctx, r, "host", kind, string(text)); err != nil {
		return nil, err
	}
	if p.crowd, err = start(ctx, w, "crowd", kind); err != nil {
		p.host.stop(b)
		return nil, err
	}
	if p.addr, err = call[string](ctx, p.host, "Addr", nothing); err != nil {
		p.stop(b)
		return nil, err
	}
	return p, nil
}

// nothing is the argument of a method that takes none.
var nothing struct{}

func (p *pair) stop(b *bench) {
	p.crowd.stop(b)
	p.host.stop(b)
}
