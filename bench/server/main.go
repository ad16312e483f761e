//go:build linux

// Command server measures what a Longwire server costs beside the centrifuge
// library, whose connections, streams and logs serve the same purpose: memory per
// idle connection, events delivered to many connections, handshakes and resumes. Last,
// without that library, it measures how each cost of a Longwire server grows.
//
// The servers and their clients are processes of their own, which this program
// starts from itself, on loopback. The servers take turns in every round, in
// random order, because a machine's speed changes from minute to minute: read the
// ratios of one round, not the rates. Nothing is asserted; the budgets of the design
// stand beside the figures. It runs on Linux, which counts memory and CPU time for it.
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
	"strconv"
	"strings"
	"time"
)

// options say what is measured.
type options struct {
	parts      []string
	rounds     int
	idle       int
	fanOut     []int
	flood      time.Duration
	handshakes int
	resumes    int
	growth     []dimension
	seed       uint64
}

// part is one of the things that can be measured.
type part struct {
	name string
	run  func(context.Context, *bench) error
}

var parts = []part{
	{"memory", measureMemory},
	{"fanout", measureFanOut},
	{"handshakes", measureHandshakes},
	{"resumes", measureResumes},
	{"growth", measureGrowth},
}

func main() {
	if len(os.Args) > 1 {
		if child := children[os.Args[1]]; child != nil {
			if err := child(os.Args[2:]); err != nil {
				fmt.Fprintf(os.Stderr, "bench-server: %s: %v\n", strings.Join(os.Args[1:], " "), err)
				os.Exit(1)
			}
			return
		}
	}
	o, err := readOptions(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
		err = run(ctx, os.Stdout, os.Stderr, o)
		stop()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-server:", err)
		os.Exit(1)
	}
}

// readOptions ends the program for flags that cannot be read.
func readOptions(args []string) (options, error) {
	o := options{fanOut: []int{100, 1000, 10000}, growth: dimensions}
	for _, p := range parts {
		o.parts = append(o.parts, p.name)
	}
	all := strings.Join(o.parts, ",")
	fs := flag.NewFlagSet("bench-server", flag.ExitOnError)
	fs.Func("parts", "`what` to measure, a list (default "+all+")", func(text string) error {
		o.parts = strings.Split(text, ",")
		for _, name := range o.parts {
			if !slices.ContainsFunc(parts, func(p part) bool { return p.name == name }) {
				return fmt.Errorf("%q is none of %s", name, all)
			}
		}
		return nil
	})
	fs.Func("fanout", "to how many `connections` events go, a list (default 100,1000,10000)", func(text string) (err error) {
		o.fanOut, err = readNumbers(text)
		return err
	})
	fs.Func("growth", "of `what` the growth is measured, a list (default streams,connected,kept,retained,published)", func(text string) error {
		o.growth = nil
		for key := range strings.SplitSeq(text, ",") {
			i := slices.IndexFunc(dimensions, func(d dimension) bool { return d.key == key })
			if i < 0 {
				return fmt.Errorf("there is no %q", key)
			}
			o.growth = append(o.growth, dimensions[i])
		}
		return nil
	})
	fs.IntVar(&o.rounds, "rounds", 4, "how often each figure is measured")
	fs.IntVar(&o.idle, "idle", 5000, "over how many `connections` memory is measured")
	fs.DurationVar(&o.flood, "flood", 1500*time.Millisecond, "how long events are published as fast as they are taken")
	fs.IntVar(&o.handshakes, "handshakes", 1000, "how many handshakes of a kind a round has")
	fs.IntVar(&o.resumes, "resumes", 1000, "how many clients resume in a round")
	fs.Uint64Var(&o.seed, "seed", 1, "of the order in which they take turns")
	_ = fs.Parse(args) // has ended the program if there was an error
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if min(o.rounds, o.idle, o.handshakes, o.resumes) < 1 || o.flood <= 0 {
		return o, errors.New("-rounds, -idle, -flood, -handshakes and -resumes must be positive")
	}
	return o, nil
}

func readNumbers(text string) ([]int, error) {
	var numbers []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", word)
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// run measures the parts, one after the other.
func run(ctx context.Context, out, progress io.Writer, o options) error {
	for _, p := range parts {
		if !slices.Contains(o.parts, p.name) {
			continue
		}
		b := newBench(o, out, progress)
		if err := p.run(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		b.reportNoise()
	}
	return nil
}
