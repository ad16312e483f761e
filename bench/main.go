// Command bench measures how many events a second reach the callbacks of pages, how
// late they are and what they cost: through Longwire, beside a plain page script on
// the same frames. It has three parts:
//
//   - page: one page, with a connection of its own;
//   - tabs: several tabs at once that share one connection, beside as many plain
//     WebSockets;
//   - cost: what each such tab adds to the memory and the work of a browser in which
//     20 events a second arrive, and how late they are. It needs Chromium on Linux.
//
// It serves the built web/dist and a peer that speaks the protocol by hand, starts
// a browser on its page and prints what the tabs report. The two ways take turns
// in one run of one browser, because a machine's speed changes from minute to
// minute: read the ratios, not the rates. No debugger is attached to the browser:
// through one every frame would be reported, which costs more than what is measured.
// As always, one tab is visible, here the last that was opened, and the connection
// that all share belongs to the first.
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
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/longwire/longwire/bench/internal/browser"
	"github.com/longwire/longwire/internal/pause"
)

// options say what is measured.
type options struct {
	parts   []string
	batches []int
	tabs    []int
	rounds  int
	warmUp  time.Duration
	window  time.Duration
	seed    uint64
}

func main() {
	o := options{parts: []string{"page"}, batches: []int{1, 8, 64}, tabs: []int{1, 4, 10}}
	flag.Func("parts", "what to measure, a list of page, tabs and cost (default page)", func(text string) error {
		o.parts = strings.Split(text, ",")
		return nil
	})
	flag.Func("batches", "how many `events` a frame has, a list (default 1,8,64)", numbers(&o.batches))
	flag.Func("tabs", "how many `tabs` there are, a rising list (default 1,4,10)", numbers(&o.tabs))
	chromium := flag.String("chromium", "", "`path` of a Chromium to measure in")
	firefox := flag.String("firefox", "", "`path` of a Firefox to measure in, for the part page")
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

// numbers reads a list of them into list.
func numbers(list *[]int) func(string) error {
	return func(text string) error {
		*list = nil
		for word := range strings.SplitSeq(text, ",") {
			n, err := strconv.Atoi(word)
			if err != nil || n < 1 {
				return fmt.Errorf("%q is not a positive number", word)
			}
			*list = append(*list, n)
		}
		return nil
	}
}

func run(ctx context.Context, out io.Writer, o options, chromium, firefox string) error {
	if o.rounds < 1 || o.warmUp < 0 || o.window <= 0 {
		return errors.New("-rounds and -window must be positive, -warm-up not negative")
	}
	if !slices.IsSorted(o.tabs) {
		return errors.New("-tabs must rise: a browser only ever gets more of them")
	}
	if chromium == "" && firefox == "" {
		return errors.New("name a browser: -chromium PATH or -firefox PATH")
	}
	for _, part := range o.parts {
		var err error
		switch part {
		case "page":
			err = measurePage(ctx, out, o, chromium, firefox)
		case "tabs", "cost":
			if chromium == "" {
				return fmt.Errorf("the part %s needs -chromium PATH", part)
			}
			if part == "cost" {
				err = measureCost(ctx, out, o, browser.Chromium(chromium))
			} else {
				err = measureRates(ctx, out, o, "Chromium", browser.Chromium(chromium), shared)
			}
		default:
			err = errors.New("there is none of this name")
		}
		if err != nil {
			return fmt.Errorf("part %s: %w", part, err)
		}
	}
	return nil
}

func measurePage(ctx context.Context, out io.Writer, o options, chromium, firefox string) error {
	o.tabs = []int{1}
	o.batches = append(slices.Clone(o.batches), paced)
	if chromium != "" {
		if err := measureRates(ctx, out, o, "Chromium", browser.Chromium(chromium), longwire); err != nil {
			return fmt.Errorf("in Chromium: %w", err)
		}
	}
	if firefox != "" {
		if err := measureRates(ctx, out, o, "Firefox", browser.Firefox(firefox), longwire); err != nil {
			return fmt.Errorf("in Firefox: %w", err)
		}
	}
	return nil
}

// patience bounds how long one measurement may take beyond what it should.
const patience = time.Minute

// startUp is how long a browser has to become quiet.
const startUp = 2 * time.Second

// inBrowser calls use with a browser of its own, with one tab, and its peer.
func inBrowser(ctx context.Context, start browser.Command, use func(context.Context, *browser.Browser, *peer) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := newPeer()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: p.handler(), ReadHeaderTimeout: patience}
	go server.Serve(listener)             //nolint:errcheck // ends with ErrServerClosed
	defer func() { _ = server.Close() }() // and with it the page's work
	b, err := browser.Start(ctx, start, "http://"+listener.Addr().String()+pagePath)
	if err != nil {
		return err
	}
	defer b.Stop()
	go func() { cancel(b.Ended()) }()
	if _, err := p.tabs.Open(ctx, 1); err != nil {
		return err
	}
	if err := pause.For(ctx, startUp); err != nil {
		return err
	}
	return use(ctx, b, p)
}

// turns are the two ways, in the order of each turn.
type turns struct {
	ways  []string
	order *rand.Rand
}

func newTurns(o options, against string) *turns {
	order := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // an order, not a secret
	return &turns{ways: []string{plain, against}, order: order}
}

func (t *turns) next() []string {
	t.order.Shuffle(len(t.ways), func(i, j int) { t.ways[i], t.ways[j] = t.ways[j], t.ways[i] })
	return t.ways
}
