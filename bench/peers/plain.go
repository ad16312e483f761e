package main

import (
	"context"
	"errors"
	"net/http"
	"sync"

	"github.com/coder/websocket"
)

// plain is what a backend without a library has: each event is one message to each
// connection, in a queue of its own.
type plain struct {
	mu     sync.Mutex
	queues map[chan []byte]struct{}
}

// queueLength is more than a benchmark has under way.
const queueLength = 4096

func newPlain() endpoint {
	p := &plain{queues: make(map[chan []byte]struct{})}
	return endpoint{handler: p, publish: p.publish}
}

func (p *plain) publish(data []byte) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for queue := range p.queues {
		select {
		case queue <- data:
		default:
			return errors.New("a client is too slow")
		}
	}
	return nil
}

func (p *plain) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return // it has been answered
	}
	defer ws.CloseNow() //nolint:errcheck // whatever it says, the client is gone
	ctx := ws.CloseRead(context.Background())
	queue := make(chan []byte, queueLength)
	p.mu.Lock()
	p.queues[queue] = struct{}{}
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.queues, queue)
		p.mu.Unlock()
	}()
	for {
		select {
		case data := <-queue:
			if ws.Write(ctx, websocket.MessageText, data) != nil { //nolint:contextcheck // the connection outlives the request
				return
			}
		case <-ctx.Done():
			return
		}
	}
}
