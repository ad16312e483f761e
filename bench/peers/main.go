// Command peers measures what a page pays for Longwire beside other libraries: each
// with the server that belongs to it, the wrappers of a WebSocket with a plain one. It
// has four parts:
//
//   - rates: events a second that reach a callback at saturation, how late single ones
//     are, and the time of the main thread that they take;
//   - load: from the start of a page to its first event, with an empty cache and a warm
//     one, on loopback and over a line;
//   - cost: memory of 1 and of 10 tabs, their sockets and handshakes;
//   - restart: how soon many clients have events again after their server was killed.
//
// The libraries take turns in every round, in random order and in one browser, because
// a machine's speed changes from minute to minute: read the ratios, not the rates. No
// debugger is attached to the browser. It runs on Linux, whose /proc it reads, and needs
// Node for what is not written in Go.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"time"
)

// options say what is measured.
type options struct {
	dir      string // of this program's scripts
	chromium string
	parts    []string
	rounds   int
	window   time.Duration
	clients  int
	plots    string // directory, empty: none
	seed     uint64
}

var parts = []struct {
	name string
	run  func(context.Context, *bench) error
}{
	{"rates", measureRates},
	{"load", measureLoad},
	{"cost", measureCost},
	{"restart", measureRestart},
}

func main() {
	var err error
	if len(os.Args) > 1 && children[os.Args[1]] != nil {
		err = children[os.Args[1]](os.Args[2:])
	} else {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, os.Stdout, os.Stderr, os.Args[1:])
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-peers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out, progress io.Writer, args []string) error {
	o, err := readOptions(args)
	if err != nil {
		return err
	}
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		if err := p.run(ctx, newBench(o, out, progress)); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
	}
	return nil
}

// readOptions ends the program for flags that cannot be read.
func readOptions(args []string) (*options, error) {
	o := &options{}
	for _, p := range parts {
		o.parts = append(o.parts, p.name)
	}
	all := strings.Join(o.parts, ",")
	fs := flag.NewFlagSet("bench-peers", flag.ExitOnError)
	fs.Func("parts", "`what` to measure, a list (default "+all+")", func(text string) error {
		o.parts = strings.Split(text, ",")
		for _, name := range o.parts {
			if !slices.Contains(strings.Split(all, ","), name) {
				return fmt.Errorf("%q is none of %s", name, all)
			}
		}
		return nil
	})
	fs.StringVar(&o.chromium, "chromium", "", "`path` of a Chromium to measure in")
	fs.IntVar(&o.rounds, "rounds", 5, "how often each figure is measured")
	fs.DurationVar(&o.window, "window", 2*time.Second, "how long a rate is measured; latencies four times as long")
	fs.IntVar(&o.clients, "clients", 200, "how many clients see a restart")
	fs.StringVar(&o.plots, "plots", "", "`directory` for pictures of the parts rates and restart")
	fs.Uint64Var(&o.seed, "seed", 1, "of the order in which the libraries take turns")
	_ = fs.Parse(args) // has ended the program if there was an error
	if fs.NArg() > 0 {
		return nil, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if min(o.rounds, o.clients) < 1 || o.window <= 0 {
		return nil, errors.New("-rounds, -window and -clients must be positive")
	}
	if o.chromium == "" {
		return nil, errors.New("-chromium: missing")
	}
	var err error
	o.dir, err = os.Getwd()
	return o, err
}
