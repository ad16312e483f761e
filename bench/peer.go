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
	"github.com/coder/websocket/wsjson"

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

// order is what a tab is told.
type order struct {
	Do  string `json:"do"`
	Tab int    `json:"tab"` // number of the one to open
	Way string `json:"way"`
	URL string `json:"url"`
	Ack int    `json:"ack"` // events after which a tab says how far it is
}

// report is what a tab answers.
type report struct {
	Is        string    `json:"is"`
	Error     string    `json:"error"`
	Seq       uint64    `json:"seq"`
	Events    float64   `json:"events"`
	Seconds   float64   `json:"seconds"`
	Latencies []float64 `json:"latencies"` // ms
	Heap      float64   `json:"heap"`      // bytes, 0: not known
}

// result is what came of a task.
type result struct {
	tabs   []report
	window time.Duration // as it was
	times  times         // of the whole browser, in the window
	memory memory        // at its end
}

// tab is one of the browser.
type tab struct {
	n       int
	ws      *websocket.Conn
	reports chan report // closed: it is gone
}

// peer gives the tabs of a browser tasks and plays the server of each.
type peer struct {
	joined chan *tab
	tabs   []*tab // in the order in which they were opened
	run    int

	mu    sync.Mutex
	flows []*flow // of the task under way
}

func newPeer() *peer { return &peer{joined: make(chan *tab)} }

// open makes sure that there are n tabs.
func (p *peer) open(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("no word of it: is web/dist built?"))
	defer cancel()
	for len(p.tabs) < n {
		if next := len(p.tabs); next > 0 {
			if err := p.tabs[0].tell(ctx, order{Do: "open", Tab: next}); err != nil {
				return err
			}
		}
		select {
		case t := <-p.joined:
			if t.n != len(p.tabs) {
				return fmt.Errorf("tab %d came in place of tab %d", t.n, len(p.tabs))
			}
			p.tabs = append(p.tabs, t)
		case <-ctx.Done():
			return fmt.Errorf("tab %d did not open: %w", len(p.tabs), context.Cause(ctx))
		}
	}
	return nil
}

// do has the first tabs do one task.
func (p *peer) do(ctx context.Context, b *browser, t task) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+t.warmUp+t.window)
	defer cancel()
	r, err := p.measure(ctx, b, t)
	if err != nil {
		return r, fmt.Errorf("%s: %w", t, err)
	}
	return r, nil
}

func (p *peer) measure(ctx context.Context, b *browser, t task) (r result, err error) {
	if err := p.open(ctx, t.tabs); err != nil {
		return r, err
	}
	tabs := p.tabs[:t.tabs]
	if err := p.begin(ctx, t, tabs); err != nil {
		return r, err
	}
	if err := pause(ctx, t.warmUp); err != nil {
		return r, err
	}
	if err := tell(ctx, tabs, order{Do: "mark"}); err != nil {
		return r, err
	}
	began, before := time.Now(), timesOf(b.pid)
	if err := pause(ctx, t.window); err != nil {
		return r, err
	}
	r.times, r.window = timesOf(b.pid).since(before), time.Since(began)
	if err := tell(ctx, tabs, order{Do: "end"}); err != nil {
		return r, err
	}
	for _, one := range tabs {
		got, err := one.await(ctx, "result")
		if err != nil {
			return r, err
		}
		r.tabs = append(r.tabs, got)
	}
	r.memory = memoryOf(b.pid)
	// The first one has the connection: were it the first to leave, others would
	// take over.
	for _, one := range slices.Backward(tabs) {
		if err := one.tell(ctx, order{Do: "stop"}); err != nil {
			return r, err
		}
		if _, err := one.await(ctx, "stopped"); err != nil {
			return r, err
		}
	}
	return r, pause(ctx, settle)
}

// settle is how long what was under way has, so that it does not meet the next task.
const settle = 200 * time.Millisecond

// begin has the tabs follow events, and then those flow in full.
func (p *peer) begin(ctx context.Context, t task, tabs []*tab) error {
	full := make(chan struct{})
	flows := []*flow{newFlow(t.batch, full)}
	for i := range tabs {
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
		return tabs[i].tell(ctx, order{Do: "begin", Way: t.way, URL: url, Ack: ackFrames * max(t.batch, 1)})
	}
	// The first one has the connection, if there is one for all.
	if err := begin(0); err != nil {
		return err
	}
	if _, err := tabs[0].await(ctx, "begun"); err != nil {
		return err
	}
	for i := 1; i < len(tabs); i++ {
		if err := begin(i); err != nil {
			return err
		}
	}
	for _, one := range tabs[1:] {
		if _, err := one.await(ctx, "begun"); err != nil {
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

func (t *tab) tell(ctx context.Context, o order) error {
	if err := wsjson.Write(ctx, t.ws, o); err != nil {
		return fmt.Errorf("tab %d, %s: %w", t.n, o.Do, err)
	}
	return nil
}

// await returns the next report, which must be the one named.
func (t *tab) await(ctx context.Context, is string) (report, error) {
	select {
	case r, ok := <-t.reports:
		switch {
		case !ok:
			return r, fmt.Errorf("tab %d is gone", t.n)
		case r.Is != is:
			return r, fmt.Errorf("tab %d: %q in place of %q: %s", t.n, r.Is, is, r.Error)
		}
		return r, nil
	case <-ctx.Done():
		return report{}, fmt.Errorf("tab %d: no %q: %w", t.n, is, context.Cause(ctx))
	}
}

func tell(ctx context.Context, tabs []*tab, o order) error {
	for _, t := range tabs {
		if err := t.tell(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
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
	mux.HandleFunc("GET /tabs", accept(p.join))
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

// join serves a tab until it is gone.
func (p *peer) join(r *http.Request, ws *websocket.Conn) error {
	ws.SetReadLimit(1 << 20)
	n, _ := strconv.Atoi(r.FormValue("tab")) // the first one has no number
	t := &tab{n: n, ws: ws, reports: make(chan report, 1)}
	defer close(t.reports)
	select {
	case p.joined <- t:
	case <-r.Context().Done():
		return nil
	}
	for {
		var got report
		if err := wsjson.Read(r.Context(), ws, &got); err != nil {
			return err
		}
		if got.Is == "ack" {
			p.ack(n, got.Seq)
			continue
		}
		select {
		case t.reports <- got:
		case <-r.Context().Done():
			return nil
		}
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
