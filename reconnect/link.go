//go:build !js

package reconnect

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

// link is one socket: a reader, and a writer with the frames not yet written,
// which the outbox window bounds.
type link struct {
	d      *driver
	id     uint64
	ctx    context.Context //nolint:containedctx // the life of the socket
	cancel context.CancelFunc

	mu     sync.Mutex
	out    [][]byte
	opened bool
	left   bool
	code   websocket.StatusCode
	reason string
	wake   chan struct{}
}

// closeGrace is how long a polite close may take before the socket is dropped.
const closeGrace = 2 * time.Second

func (d *driver) dial(a Dial) {
	ctx, cancel := context.WithCancel(d.ctx)
	l := &link{d: d, id: a.Conn, ctx: ctx, cancel: cancel, wake: make(chan struct{}, 1)}
	d.links[a.Conn] = l
	d.linksWG.Go(func() {
		defer cancel()
		ws, retryAfter, err := l.open(a.URL)
		if err != nil {
			l.tell(Closed{Conn: l.id, Code: wire.CloseAbnormal, Reason: plainError(err), RetryAfter: retryAfter})
			return
		}
		ws.SetReadLimit(int64(d.m.p.MaxMessage))
		l.mu.Lock()
		l.opened = true
		l.mu.Unlock()
		var writer sync.WaitGroup
		writer.Go(func() { l.write(ws) })
		l.tell(Opened{l.id})
		l.read(ws)
		writer.Wait()
		ws.CloseNow() //nolint:errcheck // whatever it says, the socket is gone
	})
}

// open dials. When the handshake was answered with a refusal for now, retryAfter is
// for how long, if the server says.
func (l *link) open(target string) (ws *websocket.Conn, retryAfter time.Duration, err error) {
	header, err := l.d.headers(l.ctx)
	if err != nil {
		return nil, 0, err
	}
	ws, resp, err := websocket.Dial(l.ctx, target, &websocket.DialOptions{
		HTTPClient: l.d.o.HTTPClient, HTTPHeader: header, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil && resp != nil {
		if resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode == http.StatusServiceUnavailable {
			retryAfter = parseRetryAfter(resp.Header.Get("Retry-After"), time.Now())
		}
		return nil, retryAfter, errors.New("the handshake was answered with " + resp.Status)
	}
	return ws, 0, err
}

// tell hands an event to the loop, unless the link was left: nothing else may end
// ctx before the reader has told how the socket ended.
func (l *link) tell(ev Event) bool {
	select {
	case l.d.inbox <- ev:
		return true
	case <-l.ctx.Done():
		return false
	}
}

func (l *link) read(ws *websocket.Conn) {
	for {
		typ, data, err := ws.Read(l.ctx)
		if err != nil {
			if l.tell(closeEvent(l.id, err)) {
				l.cancel() // for the writer
			}
			return
		}
		if !l.tell(Received{Conn: l.id, Data: data, Binary: typ == websocket.MessageBinary}) {
			return
		}
	}
}

// closeEvent reads the peer's close frame out of err.
func closeEvent(id uint64, err error) Closed {
	ev := Closed{Conn: id, Code: wire.CloseAbnormal}
	if e, ok := errors.AsType[websocket.CloseError](err); ok {
		ev.Code, ev.Reason = int(e.Code), e.Reason
	} else if errors.Is(err, websocket.ErrMessageTooBig) {
		ev.Reason = "a message was larger than the client takes"
	}
	return ev
}

// send queues a frame. It never blocks.
func (l *link) send(data []byte) {
	l.mu.Lock()
	l.out = append(l.out, data)
	l.mu.Unlock()
	signal(l.wake)
}

// leave closes the socket politely, without anybody waiting for it.
func (l *link) leave(code int, reason string) {
	l.mu.Lock()
	l.left, l.code, l.reason = true, websocket.StatusCode(code), reason
	opened := l.opened
	l.mu.Unlock()
	if !opened {
		l.cancel()
		return
	}
	signal(l.wake)
	stop := time.AfterFunc(closeGrace, l.cancel)
	context.AfterFunc(l.ctx, func() { stop.Stop() })
}

func (l *link) write(ws *websocket.Conn) {
	for {
		l.mu.Lock()
		out, left := l.out, l.left
		l.out = nil
		l.mu.Unlock()
		for _, data := range out {
			if ws.Write(l.ctx, websocket.MessageText, data) != nil {
				return // the reader sees why, and tells
			}
		}
		if left {
			ws.Close(l.code, l.reason) //nolint:errcheck // closeGrace ends it
			l.cancel()
			return
		}
		select {
		case <-l.wake:
		case <-l.ctx.Done():
			return
		}
	}
}
