// Command bench measures how many events a second reach a page's callback, and how
// late they are: through Longwire, beside a plain page script on the same frames.
//
// It serves the built web/dist and a peer that speaks the protocol by hand, starts
// a browser on its page and prints what the page reports. The two ways take turns
// in one run of one page, because a machine's speed changes from minute to minute:
// read the ratios, not the rates. No debugger is attached to the browser: through
// one every frame would be reported, which costs more than what is measured.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"time"
)

// options say what is measured.
type options struct {
	batches []int
	rounds  int
	warmUp  time.Duration
	window  time.Duration
	seed    uint64
}

func main() {
	o := options{batches: []int{1, 8, 64}}
	flag.Func("batches", "how many `events` a frame has, a list (default 1,8,64)", func(text string) (err error) {
		o.batches, err = readBatches(text)
		return err
	})
	chromium := flag.String("chromium", "", "`path` of a Chromium to measure in")
	firefox := flag.String("firefox", "", "`path` of a Firefox to measure in")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each way is measured")
	flag.DurationVar(&o.warmUp, "warm-up", time.Second, "how long events flow before each measurement")
	flag.DurationVar(&o.window, "window", 2*time.Second, "how long each measurement takes")
	flag.Uint64Var(&o.seed, "seed", 1, "of the order in which the two ways take turns")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Stdout, o, *chromium, *firefox)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func readBatches(text string) ([]int, error) {
	var batches []int
	for word := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 {
			return nil, fmt.Errorf("%q is not a positive number", word)
		}
		batches = append(batches, n)
	}
	return batches, nil
}

func run(ctx context.Context, out io.Writer, o options, chromium, firefox string) error {
	if o.rounds < 1 || o.warmUp < 0 || o.window <= 0 {
		return errors.New("-rounds and -window must be positive, -warm-up not negative")
	}
	if chromium == "" && firefox == "" {
		return errors.New("name a browser: -chromium PATH or -firefox PATH")
	}
	if chromium != "" {
		if err := measure(ctx, out, o, "Chromium", chromiumCommand(chromium)); err != nil {
			return fmt.Errorf("in Chromium: %w", err)
		}
	}
	if firefox != "" {
		if err := measure(ctx, out, o, "Firefox", firefoxCommand(firefox)); err != nil {
			return fmt.Errorf("in Firefox: %w", err)
		}
	}
	return nil
}

// patience bounds how long one measurement may take beyond what it should.
const patience = time.Minute

// measure runs the whole schedule in one browser and prints the table.
func measure(ctx context.Context, out io.Writer, o options, name string, start browserCommand) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := newPeer()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: patience}
	go server.Serve(listener)             //nolint:errcheck // ends with ErrServerClosed
	defer func() { _ = server.Close() }() // and with it the page's work
	b, err := startBrowser(ctx, start, "http://"+listener.Addr().String()+pagePath)
	if err != nil {
		return err
	}
	defer b.stop()

	fmt.Fprintf(out, "%s, %d rounds of %s for each way\n", name, o.rounds, o.window)
	results := newTable(o.batches)
	order := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // an order, not a secret
	for round := 1; round <= o.rounds; round++ {
		var line strings.Builder
		for _, batch := range append(o.batches[:len(o.batches):len(o.batches)], paced) {
			ways := []string{plain, longwire}
			order.Shuffle(len(ways), func(i, j int) { ways[i], ways[j] = ways[j], ways[i] })
			for _, way := range ways {
				got, err := p.do(ctx, b, task{Way: way, Batch: batch, WarmUp: o.warmUp.Milliseconds(), Window: o.window.Milliseconds()})
				if err != nil {
					return err
				}
				results.add(batch, way, got)
			}
			line.WriteString(results.last(batch))
		}
		fmt.Fprintf(out, "round %d of %d:%s\n", round, o.rounds, line.String())
	}
	fmt.Fprintln(out)
	return results.print(out)
}
