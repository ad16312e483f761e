package main

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/web"
	"github.com/longwire/longwire/wire"
)

// The ways in which a page can follow the events.
const (
	plain    = "plain"
	longwire = "longwire"
)

// paced, in place of a batch size, asks for single events at an even pace.
const paced = 0

const (
	pace = 20 // events a second
	// A page has ackFrames times the window of frames under way at most: enough to
	// keep it busy, little enough that nothing piles up in the browser.
	ackFrames = 32
	window    = 8
	// stream and epoch are those of all events.
	stream = "bench"
	epoch  = "1"
)

// task is one measurement that the page is to make.
type task struct {
	Run    int    `json:"run"`
	Way    string `json:"way"`
	Batch  int    `json:"batch"`  // events of a frame, or paced
	Ack    int    `json:"ack"`    // events after which the page says so
	WarmUp int64  `json:"warmUp"` // ms
	Window int64  `json:"window"` // ms
}

// result is what the page reports of a task.
type result struct {
	Error     string    `json:"error"`
	Events    float64   `json:"events"`
	Seconds   float64   `json:"seconds"`
	Latencies []float64 `json:"latencies"` // ms

	cpu time.Duration // of the whole browser, 0: not known
}

func (r result) rate() float64 { return r.Events / r.Seconds }

// cost is the CPU time of an event, in microseconds.
func (r result) cost() float64 { return r.cpu.Seconds() * 1e6 / r.Events }

// peer gives a page tasks and plays the server of each.
type peer struct {
	tasks   chan task
	results chan result
	marks   chan struct{} // a window begins

	mu  sync.Mutex
	run *running
}

// running is the task that the page is at.
type running struct {
	task
	credit chan struct{}
}

func newPeer() *peer {
	return &peer{tasks: make(chan task), results: make(chan result), marks: make(chan struct{})}
}

// do has the page do one task.
func (p *peer) do(ctx context.Context, b *browser, t task) (result, error) {
	ctx, cancel := context.WithTimeout(ctx, patience+time.Duration(t.WarmUp+t.Window)*time.Millisecond)
	defer cancel()
	t.Ack = ackFrames * max(t.Batch, 1)
	run := &running{task: t, credit: make(chan struct{}, window)}
	for range window {
		run.credit <- struct{}{}
	}
	p.mu.Lock()
	if p.run != nil {
		run.Run = p.run.Run + 1
	}
	p.run = run
	p.mu.Unlock()
	var failed error
	tasks := p.tasks
	var before time.Duration
	for failed == nil {
		select {
		case tasks <- run.task:
			tasks = nil
		case <-p.marks:
			before, _ = cpuTime(b.pid)
		case r := <-p.results:
			if r.Error != "" {
				return r, fmt.Errorf("%s, batches of %d: the page: %s", t.Way, t.Batch, r.Error)
			}
			if after, ok := cpuTime(b.pid); ok {
				r.cpu = after - before
			}
			return r, nil
		case <-b.ended:
			failed = b.err
		case <-ctx.Done():
			failed = fmt.Errorf("%s, batches of %d: no result: %w", t.Way, t.Batch, ctx.Err())
		}
	}
	return result{}, failed
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
	mux.HandleFunc("GET /next", p.next)
	mux.HandleFunc("POST /mark", p.mark)
	mux.HandleFunc("POST /result", p.result)
	mux.HandleFunc("GET /events/{run}", p.socket(p.events))
	mux.HandleFunc("GET /acks/{run}", p.socket(p.acks))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// An isolated page has the finest clock.
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Cross-Origin-Embedder-Policy", "require-corp")
		mux.ServeHTTP(w, r)
	})
}

// next answers with the next task, when there is one.
func (p *peer) next(w http.ResponseWriter, r *http.Request) {
	select {
	case t := <-p.tasks:
		_ = json.NewEncoder(w).Encode(t)
	case <-r.Context().Done():
	}
}

// mark notes that a window begins.
func (p *peer) mark(_ http.ResponseWriter, r *http.Request) {
	select {
	case p.marks <- struct{}{}:
	case <-r.Context().Done():
	}
}

// result takes what the page has measured.
func (p *peer) result(_ http.ResponseWriter, r *http.Request) {
	var got result
	if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
		got.Error = "bad result: " + err.Error()
	}
	select {
	case p.results <- got:
	case <-r.Context().Done():
	}
}

// socket accepts a WebSocket for the task under way.
func (p *peer) socket(serve func(context.Context, *websocket.Conn, *running) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		run := p.run
		p.mu.Unlock()
		if run == nil || r.PathValue("run") != strconv.Itoa(run.Run) {
			http.NotFound(w, r)
			return
		}
		ws, err := websocket.Accept(w, r, nil)
		if err != nil {
			return // it has been answered
		}
		if err := serve(r.Context(), ws, run); err != nil {
			_ = ws.Close(websocket.StatusInternalError, wire.ClipReason(err.Error()))
			return
		}
		_ = ws.CloseNow()
	}
}

// acks gives the events room for each message of the page.
func (p *peer) acks(ctx context.Context, ws *websocket.Conn, run *running) error {
	for {
		if _, _, err := ws.Read(ctx); err != nil {
			return nil //nolint:nilerr // the page has left
		}
		select {
		case run.credit <- struct{}{}:
		default:
			return errors.New("more acks than frames")
		}
	}
}

// events welcomes a client and sends events until it leaves, which is an error like
// any other: nobody is there to be told.
func (p *peer) events(ctx context.Context, ws *websocket.Conn, run *running) error {
	_, text, err := ws.Read(ctx)
	if err != nil {
		return err
	}
	frames, err := wire.Decode(text)
	if err != nil {
		return err
	}
	resume, ok := frames[0].(wire.Resume)
	if !ok {
		return errors.New("the first frame is not a resume")
	}
	welcome := wire.Welcome{
		V: wire.Version, Session: "s" + strconv.Itoa(run.Run), Gen: resume.Gen, Own: wire.Answer{Epoch: epoch},
		DedupeID: "1", DedupeMs: wire.DefaultDedupe.Milliseconds(), Subs: map[string]wire.Answer{stream: {Epoch: epoch}},
	}
	if err = ws.Write(ctx, websocket.MessageText, welcome.Append(nil)); err != nil {
		return err
	}
	ctx = ws.CloseRead(ctx) // nothing more is wanted of the client
	if run.Batch == paced {
		return sendPaced(ctx, ws)
	}
	return sendBatches(ctx, ws, run)
}

// payload is an event of 150 bytes.
func payload(at float64) wire.Raw {
	head := `{"at":` + strconv.FormatFloat(at, 'f', 3, 64) + `,"symbol":"XMPL","bid":101.25,"ask":101.27,"volume":12345,"text":"`
	return wire.Raw(head + strings.Repeat("x", 148-len(head)) + `"}`)
}

// sendBatches sends frames as fast as the page takes them.
func sendBatches(ctx context.Context, ws *websocket.Conn, run *running) error {
	data := make([]wire.Raw, run.Batch)
	for i := range data {
		data[i] = payload(0)
	}
	var buf []byte
	for seq, n := uint64(1), 0; ; seq, n = seq+uint64(run.Batch), n+1 { //nolint:gosec // positive
		if n%ackFrames == 0 {
			select {
			case <-run.credit:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		var f wire.Frame = wire.Events{Stream: stream, From: seq, Data: data}
		if run.Batch == 1 {
			f = wire.Event{Stream: stream, Seq: seq, Data: data[0]}
		}
		buf = f.Append(buf[:0])
		if err := ws.Write(ctx, websocket.MessageText, buf); err != nil {
			return err
		}
	}
}

// sendPaced sends single events that say when they were sent, in ms since 1970.
func sendPaced(ctx context.Context, ws *websocket.Conn) error {
	ticker := time.NewTicker(time.Second / pace)
	defer ticker.Stop()
	for seq := uint64(1); ; seq++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return ctx.Err()
		}
		now := float64(time.Now().UnixMicro()) / 1000
		f := wire.Event{Stream: stream, Seq: seq, Data: payload(now)}
		if err := ws.Write(ctx, websocket.MessageText, f.Append(nil)); err != nil {
			return err
		}
	}
}
