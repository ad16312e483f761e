package main

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/bench/internal/browser"
	"github.com/longwire/longwire/bench/internal/tabs"
	"github.com/longwire/longwire/internal/pause"
	"github.com/longwire/longwire/web"
	"github.com/longwire/longwire/wire"
)

// The ways in which a tab can follow the events.
const (
	plain    = "plain"    // a WebSocket of its own, and a few lines
	longwire = "longwire" // a connection of its own
	shared   = "shared"   // one connection for all tabs
)

// task is one measurement that tabs are to make.
type task struct {
	way    string
	tabs   int
	batch  int // events of a frame, or paced
	warmUp time.Duration
	window time.Duration
}

func (t task) String() string {
	return fmt.Sprintf("%s, tabs %d, batches of %d", t.way, t.tabs, t.batch)
}

// result is what came of a task.
type result struct {
	tabs   []tabs.Report
	window time.Duration  // as it was
	times  browser.Times  // of the whole browser, in the window
	memory browser.Memory // at its end
}

// peer gives the tabs of a browser tasks and plays the server of each.
type peer struct {
	tabs *tabs.Tabs
	run  int

	mu    sync.Mutex
	flows []*flow // of the task under way
}

func newPeer() *peer {
	p := &peer{}
	p.tabs = tabs.New(p.ack)
	return p
}

// do has the first tabs do one task.
func (p *peer) do(ctx context.Context, b *browser.Browser, t task) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+t.warmUp+t.window)
	defer cancel()
	r, err := p.measure(ctx, b, t)
	if err != nil {
		return r, fmt.Errorf("%s: %w", t, err)
	}
	return r, nil
}

func (p *peer) measure(ctx context.Context, b *browser.Browser, t task) (r result, err error) {
	all, err := p.tabs.Open(ctx, t.tabs)
	if err != nil {
		return r, err
	}
	if err := p.begin(ctx, t, all); err != nil {
		return r, err
	}
	if err := pause.For(ctx, t.warmUp); err != nil {
		return r, err
	}
	if err := tabs.Tell(ctx, all, tabs.Order{Do: "mark"}); err != nil {
		return r, err
	}
	began, before := time.Now(), b.Times()
	if err := pause.For(ctx, t.window); err != nil {
		return r, err
	}
	r.times, r.window = b.Times().Since(before), time.Since(began)
	if err := tabs.Tell(ctx, all, tabs.Order{Do: "end"}); err != nil {
		return r, err
	}
	for _, one := range all {
		got, err := one.Await(ctx, "result")
		if err != nil {
			return r, err
		}
		r.tabs = append(r.tabs, got)
	}
	r.memory = b.Memory()
	// The first one has the connection: were it the first to leave, others would
	// take over.
	for _, one := range slices.Backward(all) {
		if _, err := one.Ask(ctx, tabs.Order{Do: "stop"}, "stopped"); err != nil {
			return r, err
		}
	}
	return r, pause.For(ctx, settle)
}

// settle is how long what was under way has, so that it does not meet the next task.
const settle = 200 * time.Millisecond

// begin has the tabs follow events, and then those flow in full.
func (p *peer) begin(ctx context.Context, t task, all []*tabs.Tab) error {
	full := make(chan struct{})
	flows := []*flow{newFlow(t.batch, full)}
	for i := range all {
		if i == 0 || t.way == shared {
			flows[0].acked[i] = 0
		} else {
			flows = append(flows, newFlow(t.batch, full, i))
		}
	}
	p.run++
	p.mu.Lock()
	p.flows = flows
	p.mu.Unlock()
	begin := func(i int) error {
		// Each at its own URL, or all at the same.
		url := fmt.Sprintf("/events/%d/%d", p.run, i%len(flows))
		return all[i].Tell(ctx, tabs.Order{Do: "begin", Way: t.way, URL: url, Ack: ackFrames * max(t.batch, 1)})
	}
	// The first one has the connection, if there is one for all.
	if err := begin(0); err != nil {
		return err
	}
	if _, err := all[0].Await(ctx, "begun"); err != nil {
		return err
	}
	for i := 1; i < len(all); i++ {
		if err := begin(i); err != nil {
			return err
		}
	}
	for _, one := range all[1:] {
		if _, err := one.Await(ctx, "begun"); err != nil {
			return err
		}
	}
	close(full)
	return nil
}

// flow returns the one with a number, nil: there is none.
func (p *peer) flow(n int) *flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < 0 || n >= len(p.flows) {
		return nil
	}
	return p.flows[n]
}

// ack notes how far a tab is.
func (p *peer) ack(tab int, seq uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.flows) > 0 {
		p.flows[tab%len(p.flows)].ack(tab, seq)
	}
}

// The page and what it loads. Its files lie as in the repository, so that the page's
// script finds the shim by the same path that a type checker takes.
const pagePath = "/bench/page.html"

var (
	//go:embed page.html
	pageHTML []byte
	//go:embed page.js
	pageJS []byte
)

func (p *peer) handler() http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/web/", http.StripPrefix("/web", web.Handler()))
	for path, data := range map[string][]byte{pagePath: pageHTML, "/bench/page.js": pageJS} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			http.ServeContent(w, r, path, time.Time{}, bytes.NewReader(data))
		})
	}
	mux.Handle("GET /tabs", p.tabs)
	mux.HandleFunc("GET /events/{run}/{flow}", accept(p.events))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An isolated page has the finest clock.
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		mux.ServeHTTP(w, r)
	})
}

// accept serves WebSockets.
func accept(serve func(*http.Request, *websocket.Conn) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // it has been answered
		}
		if err := serve(r, ws); err != nil {
			_ = ws.Close(websocket.StatusInternalError, wire.ClipReason(err.Error()))
			return
		}
		_ = ws.CloseNow()
	}
}

// events serves a connection of the task under way.
func (p *peer) events(r *http.Request, ws *websocket.Conn) error {
	n, err := strconv.Atoi(r.PathValue("flow"))
	f := p.flow(n)
	if err != nil || f == nil {
		return errors.New("there are no such events")
	}
	return f.serve(r.Context(), ws, "s"+r.PathValue("run"))
}
