// Command longwire runs the demo server of Longwire.
//
//	longwire serve [flags]
//
// It prints its help with -h, and exits with 2 when it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
)

const usage = `Longwire keeps one WebSocket per browser alive and lossless.

Usage:

	longwire <command> [flags]

Commands:

	serve    run the demo server and its page

longwire <command> -h describes the flags of a command.
`

// A usageError is the fault of who called the program.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is main with its surroundings handed in; it returns the exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := ""
	if len(args) > 0 {
		name, args = args[0], args[1:]
	}
	var err error
	switch name {
	case "serve":
		err = serve(ctx, args, stdout, stderr)
	case "help", "-h", "-help", "--help":
		fmt.Fprint(stdout, usage)
	case "":
		fmt.Fprint(stderr, usage)
		return 2
	default:
		err = usageError{fmt.Errorf("unknown command %q; longwire help lists them", name)}
	}
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		return 0
	}
	fmt.Fprintln(stderr, "longwire:", strings.ReplaceAll(err.Error(), "\n", "; "))
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}
