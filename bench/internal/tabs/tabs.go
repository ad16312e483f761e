// Package tabs gives the tabs of a browser orders, over a WebSocket of each, and takes
// their reports. The first tab opens the others.
package tabs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/longwire/longwire/wire"
)

// Order is what a tab is told.
type Order struct {
	Do  string `json:"do"`
	Tab int    `json:"tab"` // number of the one to open
	Way string `json:"way"` // how to follow events
	URL string `json:"url"` // where
	Ack int    `json:"ack"` // events after which a tab says how far it is
}

// Report is what a tab answers.
type Report struct {
	Is        string    `json:"is"`
	Error     string    `json:"error"`
	Seq       uint64    `json:"seq"`
	Events    float64   `json:"events"`
	Seconds   float64   `json:"seconds"`
	Latencies []float64 `json:"latencies"` // ms
	Heap      float64   `json:"heap"`      // bytes, 0: not known
}

// Tabs are those of one browser.
type Tabs struct {
	all    []*Tab // in the order in which they were opened
	joined chan *Tab
	acked  func(tab int, seq uint64)
}

// Tab is one of them.
type Tab struct {
	n       int
	ws      *websocket.Conn
	reports chan Report // closed: it is gone
}

// New returns none yet. acked is told how far a tab is.
func New(acked func(tab int, seq uint64)) *Tabs {
	return &Tabs{joined: make(chan *Tab), acked: acked}
}

// patience is how long a tab has to open.
const patience = time.Minute

// Open makes sure that there are n tabs, and returns these.
func (t *Tabs) Open(ctx context.Context, n int) ([]*Tab, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("no word of it: is web/dist built?"))
	defer cancel()
	for len(t.all) < n {
		if next := len(t.all); next > 0 {
			if err := t.all[0].Tell(ctx, Order{Do: "open", Tab: next}); err != nil {
				return nil, err
			}
		}
		select {
		case one := <-t.joined:
			if one.n != len(t.all) {
				return nil, fmt.Errorf("tab %d came in place of tab %d", one.n, len(t.all))
			}
			t.all = append(t.all, one)
		case <-ctx.Done():
			return nil, fmt.Errorf("tab %d did not open: %w", len(t.all), context.Cause(ctx))
		}
	}
	return t.all[:n], nil
}

// ServeHTTP serves the WebSocket of a tab until it is gone.
func (t *Tabs) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return // it has been answered
	}
	if err := t.join(r, ws); err != nil {
		_ = ws.Close(websocket.StatusInternalError, wire.ClipReason(err.Error()))
		return
	}
	_ = ws.CloseNow()
}

func (t *Tabs) join(r *http.Request, ws *websocket.Conn) error {
	ws.SetReadLimit(1 << 20)
	n, _ := strconv.Atoi(r.FormValue("tab")) // the first one has no number
	one := &Tab{n: n, ws: ws, reports: make(chan Report, 1)}
	defer close(one.reports)
	select {
	case t.joined <- one:
	case <-r.Context().Done():
		return nil
	}
	for {
		var got Report
		if err := wsjson.Read(r.Context(), ws, &got); err != nil {
			return err
		}
		if got.Is == "ack" {
			t.acked(n, got.Seq)
			continue
		}
		select {
		case one.reports <- got:
		case <-r.Context().Done():
			return nil
		}
	}
}

// Tell gives one tab an order.
func (t *Tab) Tell(ctx context.Context, o Order) error {
	if err := wsjson.Write(ctx, t.ws, o); err != nil {
		return fmt.Errorf("tab %d, %s: %w", t.n, o.Do, err)
	}
	return nil
}

// Await returns the tab's next report, which must be the one named.
func (t *Tab) Await(ctx context.Context, is string) (Report, error) {
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
		return Report{}, fmt.Errorf("tab %d: no %q: %w", t.n, is, context.Cause(ctx))
	}
}

// Tell gives all of them an order.
func Tell(ctx context.Context, all []*Tab, o Order) error {
	for _, t := range all {
		if err := t.Tell(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// Ask tells a tab what it answers with the report named.
func (t *Tab) Ask(ctx context.Context, o Order, is string) (Report, error) {
	if err := t.Tell(ctx, o); err != nil {
		return Report{}, err
	}
	return t.Await(ctx, is)
}
