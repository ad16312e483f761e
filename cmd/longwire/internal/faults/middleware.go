package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"

	"github.com/longwire/longwire/server"
)

// Upgrades goes in front of the WebSocket endpoint: it counts the requests,
// refuses them or never answers them.
func (c *Control) Upgrades(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.report.Upgrades++
		hang := c.hang
		c.mu.Unlock()
		if hang != nil {
			select {
			case <-hang:
			case <-r.Context().Done():
			}
			panic(http.ErrAbortHandler) // closes the connection without an answer
		}
		if !c.refused(w, func(f refusal) bool { return f.upgrades }) {
			next.ServeHTTP(&hijackWriter{w, c, connOf(r.Context())}, r)
		}
	})
}

// A hijackWriter learns that its connection is upgraded.
type hijackWriter struct {
	http.ResponseWriter
	control *Control
	conn    *conn
}

// Hijack is for [http.Hijacker]. It counts on a WebSocket library that has written
// the answer 101 before: then net/http has sent it by now.
func (h *hijackWriter) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	nc, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err == nil && h.conn != nil {
		// What is buffered can be peeked at without an error.
		early, _ := rw.Peek(rw.Reader.Buffered())
		h.control.upgrade(h.conn, early)
	}
	return nc, rw, err
}

// Unwrap is for [http.ResponseController].
func (h *hijackWriter) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// Probes goes in front of the probe endpoint: it counts the requests or refuses
// them.
func (c *Control) Probes(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.mu.Lock()
		c.report.Probes++
		c.mu.Unlock()
		if !c.refused(w, func(f refusal) bool { return f.probes }) {
			next.ServeHTTP(w, r)
		}
	})
}

// refused answers the request if the fault refuse is set for its kind.
func (c *Control) refused(w http.ResponseWriter, meant func(refusal) bool) bool {
	c.mu.Lock()
	f := c.refuse
	if f.status == 0 || f.left == 0 || !meant(f) {
		c.mu.Unlock()
		return false
	}
	c.refuse.left--
	c.report.Refused++
	c.mu.Unlock()
	maps.Copy(w.Header(), f.header)
	w.WriteHeader(f.status)
	fmt.Fprintf(w, "refused on request: %d %s\n", f.status, http.StatusText(f.status))
	return true
}

// Authenticate wraps the callback of the server: while logins are refused, nobody
// is known.
func (c *Control) Authenticate(next func(*http.Request) (server.Identity, error)) func(*http.Request) (server.Identity, error) {
	return func(r *http.Request) (server.Identity, error) {
		c.mu.Lock()
		refused := c.logins
		if refused {
			c.report.LoginsRefused++
		}
		c.mu.Unlock()
		if refused {
			return server.Identity{}, server.ErrUnauthorized
		}
		id, err := next(r)
		if own := connOf(r.Context()); own != nil {
			c.mu.Lock()
			own.user = id.User
			c.mu.Unlock()
		}
		return id, err
	}
}

// OnMessage wraps the callback of the server: it counts its calls by message id.
func (c *Control) OnMessage(next func(context.Context, server.Message) (json.RawMessage, error)) func(context.Context, server.Message) (json.RawMessage, error) {
	return func(ctx context.Context, m server.Message) (json.RawMessage, error) {
		c.mu.Lock()
		c.report.Messages++
		if _, known := c.report.Effects[m.ID]; known || len(c.report.Effects) < maxEffects {
			c.report.Effects[m.ID]++
		}
		c.mu.Unlock()
		return next(ctx, m)
	}
}
