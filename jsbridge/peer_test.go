//go:build !js

package jsbridge

import (
	"context"
	"crypto/sha1"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// peer is the other end for the tests in the browser: a server that does what the
// path of a connection says.
type peer struct {
	mu       sync.Mutex
	seen     map[string]chan string   // by connection id: what became of it
	released map[string]chan struct{} // by connection id: it may go on
}

// startPeer starts a peer for the length of the test, and returns its URL.
func startPeer(tb testing.TB) string {
	tb.Helper()
	p := &peer{seen: map[string]chan string{}, released: map[string]chan struct{}{}}
	mux := http.NewServeMux()
	for path, serve := range map[string]func(http.ResponseWriter, *http.Request, url.Values) string{
		"/ws/frames":  frames,
		"/ws/echo":    echo,
		"/ws/mixed":   mixed,
		"/ws/swallow": p.swallow,
		"/ws/silent":  p.silent,
		"/ws/raw":     raw,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			q := r.URL.Query()
			p.waiting(q.Get("id")) <- serve(w, r, q)
		})
	}
	mux.HandleFunc("/seen", func(w http.ResponseWriter, r *http.Request) {
		select {
		case what := <-p.waiting(r.URL.Query().Get("id")):
			_, _ = w.Write([]byte(what))
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/release", func(_ http.ResponseWriter, r *http.Request) {
		close(p.release(r.URL.Query().Get("id")))
	})
	mux.HandleFunc("/status", status)
	mux.HandleFunc("/never", func(w http.ResponseWriter, r *http.Request) {
		p.waiting(r.URL.Query().Get("id")) <- p.silent(w, r, r.URL.Query())
	})
	server := httptest.NewUnstartedServer(crossOrigin(mux))
	server.Config.BaseContext = func(net.Listener) context.Context { return tb.Context() }
	server.Start()
	tb.Cleanup(server.Close)
	return server.URL
}

// crossOrigin lets the page, whose origin is another port, read every answer.
func crossOrigin(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if origin := r.Header.Get("Origin"); origin != "" {
			w.Header().Set("Access-Control-Allow-Origin", origin)
			w.Header().Set("Access-Control-Allow-Credentials", "true")
			w.Header().Set("Access-Control-Expose-Headers", "Longwire-Probe, Retry-After")
		}
		next.ServeHTTP(w, r)
	})
}

// waiting returns the channel of a connection's fate.
func (p *peer) waiting(id string) chan string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.seen[id] == nil {
		p.seen[id] = make(chan string, 2)
	}
	return p.seen[id]
}

// release returns the channel that lets a connection go on once closed.
func (p *peer) release(id string) chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.released[id] == nil {
		p.released[id] = make(chan struct{})
	}
	return p.released[id]
}

// frames sends n text messages "1 …", "2 …", padded to size bytes, and closes with
// code and reason.
func frames(w http.ResponseWriter, r *http.Request, q url.Values) string {
	conn, err := accept(w, r)
	if err != nil {
		return err.Error()
	}
	n, size := number(q, "n"), number(q, "size")
	for i := range n {
		text := strconv.Itoa(i + 1)
		if len(text) < size {
			text += strings.Repeat(" ", size-len(text))
		}
		if err = conn.Write(r.Context(), websocket.MessageText, []byte(text)); err != nil {
			return err.Error()
		}
	}
	return fate(conn.Close(websocket.StatusCode(number(q, "code")), q.Get("reason")))
}

// echo sends every message back, until the client closes.
func echo(w http.ResponseWriter, r *http.Request, _ url.Values) string {
	conn, err := accept(w, r)
	if err != nil {
		return err.Error()
	}
	for {
		kind, data, err := conn.Read(r.Context())
		if err != nil {
			return fate(err)
		}
		if err = conn.Write(r.Context(), kind, data); err != nil {
			return err.Error()
		}
	}
}

// mixed sends three rounds of 1 MiB binary, 10 bytes binary and text, and closes.
func mixed(w http.ResponseWriter, r *http.Request, _ url.Values) string {
	conn, err := accept(w, r)
	if err != nil {
		return err.Error()
	}
	for range 3 {
		err = errors.Join(err,
			conn.Write(r.Context(), websocket.MessageBinary, make([]byte, 1<<20)),
			conn.Write(r.Context(), websocket.MessageBinary, make([]byte, 10)),
			conn.Write(r.Context(), websocket.MessageText, []byte("text")))
	}
	return fate(errors.Join(err, conn.Close(1000, "")))
}

// swallow accepts and then reads nothing: a close is never answered. It drops the
// connection when released.
func (p *peer) swallow(w http.ResponseWriter, r *http.Request, q url.Values) string {
	conn, err := accept(w, r)
	if err != nil {
		return err.Error()
	}
	defer conn.CloseNow() //nolint:errcheck // the client may be gone
	select {
	case <-p.release(q.Get("id")):
	case <-r.Context().Done():
	}
	return "dropped"
}

// silent never answers the upgrade, but says that it was asked.
func (p *peer) silent(_ http.ResponseWriter, r *http.Request, q url.Values) string {
	p.waiting(q.Get("id")) <- "asked"
	<-r.Context().Done() // the client has closed its connection
	return "gone"
}

// raw answers the upgrade and writes the bytes of hex, which need not be proper
// frames; then it drops the connection, or with hold reads until the client does.
func raw(w http.ResponseWriter, r *http.Request, q url.Values) string {
	payload, err := hex.DecodeString(q.Get("hex"))
	if err != nil {
		return err.Error()
	}
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return err.Error()
	}
	defer conn.Close() //nolint:errcheck // that is what the test wants
	key := sha1.Sum([]byte(r.Header.Get("Sec-WebSocket-Key") + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
	answer := "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Accept: " + base64.StdEncoding.EncodeToString(key[:]) + "\r\n\r\n"
	if _, err = conn.Write(append([]byte(answer), payload...)); err != nil {
		return err.Error()
	}
	if q.Has("hold") {
		_, _ = io.Copy(io.Discard, buffered)
	}
	return "dropped"
}

func accept(w http.ResponseWriter, r *http.Request) (*websocket.Conn, error) {
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err == nil {
		conn.SetReadLimit(-1)
	}
	return conn, err
}

// fate says how a connection ended: "close 4001 bye", "closed" or the error.
func fate(err error) string {
	var closed websocket.CloseError
	switch {
	case err == nil:
		return "closed"
	case errors.As(err, &closed):
		return strings.TrimSpace(fmt.Sprintf("close %d %s", closed.Code, closed.Reason))
	}
	return err.Error()
}

// status answers with the status of code, with header=value pairs of h.
func status(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	for _, pair := range q["h"] {
		name, value, _ := strings.Cut(pair, "=")
		w.Header().Set(name, value)
	}
	w.WriteHeader(number(q, "code"))
	if q.Has("endless") { // a body that a reader would never see the end of
		for r.Context().Err() == nil {
			if _, err := w.Write(make([]byte, 1<<16)); err != nil {
				break
			}
		}
	}
}

func number(q url.Values, name string) int {
	n, err := strconv.Atoi(q.Get(name))
	if err != nil {
		return 0
	}
	return n
}
