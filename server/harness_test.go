package server_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/memnet"
	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// world is a server on a network in memory. It lives in a bubble.
type world struct {
	t   *testing.T
	srv *server.Server
	net *memnet.Network
}

// byHeader authenticates with the header User; without it one is anonymous.
func byHeader(r *http.Request) (server.Identity, error) {
	return server.Identity{User: r.Header.Get("User")}, nil
}

func newWorld(t *testing.T, o server.Options) *world {
	t.Helper()
	return newWorldBehind(t, o, func(l net.Listener) net.Listener { return l })
}

// newWorldBehind is newWorld with something between the network and the server.
func newWorldBehind(t *testing.T, o server.Options, wrap func(net.Listener) net.Listener) *world {
	t.Helper()
	if o.Authenticate == nil {
		o.Authenticate = byHeader
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.NoOrigin = true
	srv, err := server.New(o)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, srv: srv, net: memnet.Listen()}
	mux := http.NewServeMux()
	mux.Handle("/ws", srv)
	mux.Handle("/probe", srv.Probe())
	mux.Handle("/ready", srv.Ready())
	hs := &http.Server{
		Handler: mux, ReadTimeout: 3 * time.Second, WriteTimeout: 3 * time.Second, IdleTimeout: 3 * time.Second,
	}
	go hs.Serve(wrap(w.net.Listener())) //nolint:errcheck // ends with ErrServerClosed
	t.Cleanup(func() {
		if err := srv.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
		_ = hs.Close()
	})
	return w
}

// inWorld runs f in a bubble with a server. The bubble fails the test when a
// goroutine is left.
func inWorld(t *testing.T, o server.Options, f func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		t.Helper()
		f(t, newWorld(t, o))
	})
}

func (w *world) publish(stream string, data ...string) {
	w.t.Helper()
	for _, d := range data {
		if _, err := w.srv.Publish(w.t.Context(), stream, []byte(d)); err != nil {
			w.t.Fatalf("Publish(%s, %s): %v", stream, d, err)
		}
	}
}

// client is a raw client: it writes texts and collects frames.
type client struct {
	t       *testing.T
	ws      *websocket.Conn
	link    *memnet.Link
	frames  chan wire.Frame
	welcome wire.Welcome
	err     error // why the frames ended
}

func (w *world) transport() *http.Transport {
	return &http.Transport{DialContext: w.net.DialContext, DisableKeepAlives: true}
}

func (w *world) tryDial(user string, header ...string) (*websocket.Conn, *http.Response, error) {
	w.t.Helper()
	h := http.Header{}
	if user != "" {
		h.Set("User", user)
	}
	for i := 0; i+1 < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	return websocket.Dial(w.t.Context(), "ws://host/ws", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: w.transport()}, HTTPHeader: h,
	})
}

// dialSilently connects and reads nothing.
func (w *world) dialSilently(user string) *client {
	w.t.Helper()
	ws, res, err := w.tryDial(user)
	if err != nil {
		w.t.Fatalf("dial: %v", err)
	}
	if res.Body != nil {
		_ = res.Body.Close()
	}
	ws.SetReadLimit(-1)
	w.t.Cleanup(func() { _ = ws.CloseNow() })
	c := newClient(w.t, ws)
	links := w.net.Links()
	c.link = links[len(links)-1]
	return c
}

func newClient(t *testing.T, ws *websocket.Conn) *client {
	t.Helper()
	return &client{t: t, ws: ws, frames: make(chan wire.Frame, 1<<15)}
}

func (w *world) dial(user string) *client {
	w.t.Helper()
	c := w.dialSilently(user)
	c.listen()
	return c
}

// listen reads from now on.
func (c *client) listen() {
	go func() {
		defer close(c.frames)
		for {
			kind, msg, err := c.ws.Read(context.Background())
			if err != nil {
				c.err = err
				return
			}
			frames, err := wire.Decode(msg)
			if err != nil || kind != websocket.MessageText {
				c.err = fmt.Errorf("%v message that cannot be read: %w", kind, err)
				return
			}
			for _, f := range frames {
				if e, ok := f.(wire.Event); ok {
					e.Text = nil
					f = e
				}
				c.frames <- f
			}
		}
	}()
}

func (c *client) send(format string, args ...any) {
	c.t.Helper()
	if err := c.ws.Write(context.Background(), websocket.MessageText, fmt.Appendf(nil, format, args...)); err != nil {
		c.t.Fatalf("write: %v", err)
	}
}

// next returns the next frame that is no heartbeat, or nil when the connection
// has ended. It fails the test when nothing comes for an hour.
func (c *client) next() wire.Frame {
	c.t.Helper()
	tooLong := time.After(time.Hour)
	for {
		select {
		case f := <-c.frames:
			if _, ok := f.(wire.Heartbeat); ok {
				continue
			}
			return f
		case <-tooLong:
			c.t.Fatal("nothing came for an hour")
		}
	}
}

func want[T any](t *testing.T, what string, got, want T) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

// expect compares the next frames.
func (c *client) expect(frames ...wire.Frame) {
	c.t.Helper()
	for i, f := range frames {
		got := c.next()
		if got == nil {
			c.t.Fatalf("frame %d: connection ended (%v), want %s", i, c.err, f.Append(nil))
		}
		if string(got.Append(nil)) != string(f.Append(nil)) {
			c.t.Fatalf("frame %d:\n got %s\nwant %s", i, got.Append(nil), f.Append(nil))
		}
	}
}

// silent fails the test if anything but heartbeats has come by now.
func (c *client) silent() {
	c.t.Helper()
	synctest.Wait()
	for {
		select {
		case f, ok := <-c.frames:
			if !ok {
				c.t.Fatalf("connection ended: %v", c.err)
			}
			if _, ok := f.(wire.Heartbeat); !ok {
				c.t.Fatalf("unexpected frame %s", f.Append(nil))
			}
		default:
			return
		}
	}
}

// closed waits for the end of the connection and compares the close code and the
// beginning of the reason.
func (c *client) closed(code int, reason string) {
	c.t.Helper()
	c.until("")
	ce, ok := errors.AsType[websocket.CloseError](c.err)
	if !ok || int(ce.Code) != code || !strings.HasPrefix(ce.Reason, reason) {
		c.t.Fatalf("connection ended with %v; want code %d and reason %q", c.err, code, reason)
	}
}

// until skips frames up to one of the type t; "" is the end of the connection.
func (c *client) until(t string) {
	c.t.Helper()
	for {
		f := c.next()
		if f == nil && t == "" || f != nil && f.Type() == t {
			return
		}
		if f == nil {
			c.t.Fatalf("connection ended with %v, want a %s first", c.err, t)
		}
	}
}

// resume sends a resume frame with the given further fields, as in `"batch":true`,
// and returns the welcome.
func (c *client) resume(fields ...string) wire.Welcome {
	c.t.Helper()
	c.send(`{"t":"resume","v":1%s}`, joined(fields))
	c.welcomed()
	return c.welcome
}

func joined(fields []string) string {
	var b strings.Builder
	for _, f := range fields {
		b.WriteString("," + f)
	}
	return b.String()
}

func (c *client) welcomed() {
	c.t.Helper()
	f := c.next()
	var ok bool
	if c.welcome, ok = f.(wire.Welcome); !ok {
		if f == nil {
			c.t.Fatalf("connection ended before the welcome: %v", c.err)
		}
		c.t.Fatalf("got %s, want a welcome", f.Append(nil))
	}
}

// join dials and resumes.
func (w *world) join(user string, fields ...string) *client {
	w.t.Helper()
	c := w.dial(user)
	c.resume(fields...)
	return c
}

func event(stream string, seq uint64, data string) wire.Event {
	return wire.Event{Stream: stream, Seq: seq, Data: wire.Raw(data)}
}

// get makes a plain request and returns the response without its body.
func (w *world) get(method, path string, header ...string) *http.Response {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, "http://host"+path, nil)
	if err != nil {
		w.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := (&http.Client{Transport: w.transport()}).Do(req)
	if err != nil {
		w.t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return res
}

func wantError(t *testing.T, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Fatalf("error %v, want one with %q", err, text)
	}
}
