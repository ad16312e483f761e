package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/longwire/longwire/bench/internal/browser"
	"github.com/longwire/longwire/bench/internal/tabs"
	"github.com/longwire/longwire/internal/pause"
)

// patience bounds how long one measurement may take beyond what it should.
const patience = time.Minute

// bench is the state of one part.
type bench struct {
	*options

	out, progress io.Writer
	order         *rand.Rand
	started       time.Time
}

func newBench(o *options, out, progress io.Writer) *bench {
	order := rand.New(rand.NewPCG(o.seed, 0)) //nolint:gosec // an order, not a secret
	return &bench{options: o, out: out, progress: progress, order: order, started: time.Now()}
}

// shuffled returns the items in an order of this moment.
func shuffled[T any](b *bench, items []T) []T {
	items = append([]T(nil), items...)
	b.order.Shuffle(len(items), func(i, j int) { items[i], items[j] = items[j], items[i] })
	return items
}

// tell says how far the part is.
func (b *bench) tell(format string, args ...any) {
	fmt.Fprintf(b.progress, "%6.1fs  "+format+"\n", append([]any{time.Since(b.started).Seconds()}, args...)...)
}

// stage is a browser, its tabs and the servers, over a link.
type stage struct {
	browser *browser.Browser
	tabs    *tabs.Tabs
	site    *site
	origin  string           // of the pages
	hosts   map[string]*host // by kind
	urls    map[string]string
}

// startUp is how long a browser has to become quiet.
const startUp = 2 * time.Second

// onStage calls use with a browser that has one tab, and the servers of the ways.
func (b *bench) onStage(ctx context.Context, l link, ways []way, acked func(seq uint64), use func(context.Context, *stage) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	s := &stage{hosts: make(map[string]*host), urls: make(map[string]string)}
	s.tabs = tabs.New(func(_ int, seq uint64) { acked(seq) })
	var err error
	if s.site, err = newSite(b.dir, s.tabs); err != nil {
		return err
	}
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	server := &http.Server{Handler: s.site, ReadHeaderTimeout: patience}
	go server.Serve(listener)             //nolint:errcheck // ends with ErrServerClosed
	defer func() { _ = server.Close() }() // and with it the pages' work
	addr, err := l.through(ctx, listener.Addr().String())
	if err != nil {
		return err
	}
	s.origin = "http://" + addr
	for _, w := range ways {
		if s.hosts[w.host] != nil {
			continue
		}
		var h *host
		if h, err = startHost(ctx, b.options, w, 0, []string{s.origin}); err != nil {
			return err
		}
		defer h.kill()
		s.hosts[w.host] = h
		if addr, err = l.through(ctx, strings.TrimPrefix(h.url(), "http://")); err != nil {
			return err
		}
		s.urls[w.host] = "http://" + addr
	}
	s.browser, err = browser.Start(ctx, browser.Chromium(b.chromium), s.origin+pagePath("0"))
	if err != nil {
		return err
	}
	defer s.browser.Stop()
	go func() { cancel(s.browser.Ended()) }()
	if _, err = s.tabs.Open(ctx, 1); err != nil {
		return err
	}
	if err = pause.For(ctx, startUp); err != nil {
		return err
	}
	return use(ctx, s)
}

// follow has tabs follow events, of which there are a few a second meanwhile.
func (s *stage) follow(ctx context.Context, all []*tabs.Tab, w way) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return s.while(ctx, w, 20*time.Millisecond, func() error {
		for _, t := range all {
			if _, err := t.Ask(ctx, tabs.Order{Do: "begin", Way: w.name, URL: s.urls[w.host]}, "begun"); err != nil {
				return err
			}
		}
		return nil
	})
}

// while calls do while events are published, one in each interval.
func (s *stage) while(ctx context.Context, w way, interval time.Duration, do func() error) error {
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- s.hosts[w.host].publishEvery(ctx, interval) }()
	err := do()
	cancel()
	if published := <-ended; err == nil {
		err = published
	}
	return err
}

// settle is how long what was under way has, so that it does not meet what is next.
const settle = 300 * time.Millisecond
