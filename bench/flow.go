package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

// paced, in place of a batch size, asks for single events at an even pace.
const paced = 0

const (
	pace = 20 // events a second
	// The slowest tab has ackFrames times the window of frames under way at most:
	// enough to keep it busy, little enough that nothing piles up in the browser.
	ackFrames = 32
	window    = 8
	// stream and epoch are those of all events.
	stream = "bench"
	epoch  = "1"
)

// flow is what one WebSocket sends: at the pace until all tabs of the run get
// events, and from then on as much as the slowest of its own tabs takes.
type flow struct {
	batch int             // events of a frame, or paced
	full  <-chan struct{} // closed: all tabs get events

	mu    sync.Mutex
	acked map[int]uint64 // the last event that each tab has confirmed
	wake  chan struct{}  // 1-buffered: acked has changed
}

func newFlow(batch int, full <-chan struct{}, tabs ...int) *flow {
	f := &flow{batch: batch, full: full, acked: make(map[int]uint64), wake: make(chan struct{}, 1)}
	for _, tab := range tabs {
		f.acked[tab] = 0
	}
	return f
}

// ack notes that a tab has got all events up to seq.
func (f *flow) ack(tab int, seq uint64) {
	f.mu.Lock()
	f.acked[tab] = seq
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// slowest is how far the slowest tab is.
func (f *flow) slowest() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	seq := ^uint64(0)
	for _, acked := range f.acked {
		seq = min(seq, acked)
	}
	return seq
}

// serve welcomes a client and sends events until it leaves, which is an error like
// any other: nobody is there to be told.
func (f *flow) serve(ctx context.Context, ws *websocket.Conn, session string) error {
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
	w := writer{ws: ws, batch: max(f.batch, 1), asked: make(chan wire.Frame)}
	welcome := wire.Welcome{
		V: wire.Version, Session: session, Gen: resume.Gen, Own: wire.Answer{Epoch: epoch},
		DedupeID: "1", DedupeMs: wire.DefaultDedupe.Milliseconds(), Subs: map[string]wire.Answer{stream: {Epoch: epoch}},
	}
	if err = w.write(ctx, welcome); err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	go func() { cancel(w.read(ctx)) }()
	full := f.full
	if f.batch == paced {
		full = nil
	}
	if err := w.sendPaced(ctx, full); err != nil {
		return err
	}
	return w.sendAll(ctx, f)
}

// writer writes to one client.
type writer struct {
	ws    *websocket.Conn
	batch int
	asked chan wire.Frame // what the client wants an answer to
	last  uint64          // event that was sent
	buf   []byte
}

func (w *writer) write(ctx context.Context, f wire.Frame) error {
	w.buf = f.Append(w.buf[:0])
	return w.ws.Write(ctx, websocket.MessageText, w.buf)
}

// read hands on what the client asks for, until it leaves.
func (w *writer) read(ctx context.Context) error {
	for {
		_, text, err := w.ws.Read(ctx)
		if err != nil {
			return err
		}
		frames, err := wire.Decode(text)
		if err != nil {
			return err
		}
		for _, f := range frames {
			select {
			case w.asked <- f:
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	}
}

// answer answers a frame, if that is wanted. A tab that joins follows from here.
func (w *writer) answer(ctx context.Context, f wire.Frame) error {
	switch f := f.(type) {
	case wire.Sub:
		return w.write(ctx, wire.Subbed{Stream: f.Stream, Answer: wire.Answer{Seq: w.last, Epoch: epoch}})
	case wire.Ping:
		return w.write(ctx, wire.Pong(f))
	}
	return nil
}

// send sends the next events.
func (w *writer) send(ctx context.Context, data []wire.Raw) error {
	var f wire.Frame = wire.Events{Stream: stream, From: w.last + 1, Data: data}
	if w.batch == 1 {
		f = wire.Event{Stream: stream, Seq: w.last + 1, Data: data[0]}
	}
	w.last += uint64(len(data))
	return w.write(ctx, f)
}

// sendPaced sends frames, at the pace, that say when they were sent: until ended.
func (w *writer) sendPaced(ctx context.Context, ended <-chan struct{}) error {
	ticker := time.NewTicker(time.Second / pace)
	defer ticker.Stop()
	for {
		var err error
		select {
		case <-ticker.C:
			now := float64(time.Now().UnixMicro()) / 1000 // ms since 1970
			err = w.send(ctx, slices.Repeat([]wire.Raw{payload(now)}, w.batch))
		case f := <-w.asked:
			err = w.answer(ctx, f)
		case <-ended:
			return nil
		case <-ctx.Done():
			err = context.Cause(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// sendAll sends frames as fast as the tabs take them.
func (w *writer) sendAll(ctx context.Context, f *flow) error {
	data := slices.Repeat([]wire.Raw{payload(0)}, w.batch)
	ahead := uint64(window * ackFrames * w.batch) //nolint:gosec // positive
	began := w.last
	for {
		var err error
		if w.last < max(began, f.slowest())+ahead {
			err = w.send(ctx, data)
		} else {
			select {
			case <-f.wake:
			case frame := <-w.asked:
				err = w.answer(ctx, frame)
			case <-ctx.Done():
				err = context.Cause(ctx)
			}
		}
		if err != nil {
			return err
		}
	}
}

// payload is an event of 150 bytes.
func payload(at float64) wire.Raw {
	head := `{"at":` + strconv.FormatFloat(at, 'f', 3, 64) + `,"symbol":"XMPL","bid":101.25,"ask":101.27,"volume":12345,"text":"`
	return wire.Raw(head + strings.Repeat("x", 148-len(head)) + `"}`)
}
