package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/internal/pause"
)

// patience is how long a test waits for what must happen.
const patience = time.Minute

// A running is the command serve, run by a test on a free port.
type running struct {
	t    *testing.T
	base string // http://host:port
	stop func() // ends it as a signal does, without an error, and waits; again: nothing
}

// startServe runs the command with more flags and ends it with the test. It must
// end without an error.
func startServe(t *testing.T, args ...string) *running {
	t.Helper()
	return startServeUntil(t, t.Context(), args...)
}

// startServeUntil is startServe with a context that ends the command.
func startServeUntil(t *testing.T, ctx context.Context, args ...string) *running { //nolint:revive // t first, as in all helpers
	t.Helper()
	ctx, cancel := context.WithCancel(ctx)
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := serve(ctx, append([]string{"-addr", "127.0.0.1:0", "-no-origin", "-drain-window", "0s"}, args...), in, testWriter{t})
		in.CloseWithError(err)
		ended <- err
	}()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("serve ended with %v", err)
		}
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("first line on stdout: %v", err)
	}
	return &running{t: t, base: strings.TrimSuffix(line, "/\n"), stop: stop}
}

type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Logf("%s", b)
	return len(b), nil
}

// request sends a request and returns status and body.
func (s *running) request(method, path string, header http.Header) (int, string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, s.base+path, http.NoBody)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return res.StatusCode, string(body)
}

// fault runs a verb that must succeed and decodes its answer.
func (s *running) fault(verb string, into any) {
	s.t.Helper()
	status, body := s.request(http.MethodPost, "/faults/"+verb, nil)
	if status != http.StatusOK {
		s.t.Fatalf("%s: %d %s", verb, status, body)
	}
	if into != nil {
		if err := json.Unmarshal([]byte(body), into); err != nil {
			s.t.Fatalf("%s: %v in %s", verb, err, body)
		}
	}
}

// postLogin logs in and returns the status and the cookies.
func (s *running) postLogin(name string) (int, []*http.Cookie) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	form := strings.NewReader(url.Values{"name": {name}}.Encode())
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.base+"/login", form)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	return res.StatusCode, res.Cookies()
}

// login returns the cookie of a user as a header.
func (s *running) login(name string) http.Header {
	s.t.Helper()
	status, cookies := s.postLogin(name)
	if len(cookies) != 1 || cookies[0].Name != userCookie || !cookies[0].HttpOnly || cookies[0].SameSite != http.SameSiteLaxMode {
		s.t.Fatalf("login of %q: %d with %v", name, status, cookies)
	}
	return http.Header{"Cookie": {userCookie + "=" + cookies[0].Value}}
}

// got is any frame of the server, as far as the tests look at it.
type got struct {
	T      string `json:"t"`
	Stream string `json:"stream"`
	Seq    uint64 `json:"seq"`
	Epoch  string `json:"epoch"`
	User   string `json:"user"`
	// Session is that of a welcome.
	Session string            `json:"session"`
	Data    json.RawMessage   `json:"data"`
	State   json.RawMessage   `json:"state"`
	ID      string            `json:"id"`
	Result  json.RawMessage   `json:"result"`
	Code    string            `json:"code"`
	Reason  string            `json:"reason"`
	Retry   int               `json:"retry"`
	Subs    map[string]gotSub `json:"subs"`
}

type gotSub struct {
	Seq    uint64 `json:"seq"`
	Epoch  string `json:"epoch"`
	Resync bool   `json:"resync"`
	Error  string `json:"error"`
}

// A client is a raw WebSocket that speaks the frames by hand.
type client struct {
	t       *testing.T
	ws      *websocket.Conn
	welcome got
}

// dial opens a WebSocket without a word.
func (s *running) dial(ctx context.Context, header http.Header) (*websocket.Conn, *http.Response, error) {
	return websocket.Dial(ctx, s.base+"/ws", &websocket.DialOptions{HTTPHeader: header})
}

// dialled returns a client that has said nothing yet.
func (s *running) dialled(header http.Header) *client {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	ws, _, err := s.dial(ctx, header)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = ws.CloseNow() })
	return &client{t: s.t, ws: ws}
}

// connect dials, follows the streams and waits for the welcome.
func (s *running) connect(header http.Header, streams ...string) *client {
	s.t.Helper()
	c := s.dialled(header)
	subs := map[string]struct{}{}
	for _, name := range streams {
		subs[name] = struct{}{}
	}
	c.send(map[string]any{"t": "resume", "v": 1, "gen": time.Now().UnixMilli(), "subs": subs})
	c.welcome = c.next("welcome")
	return c
}

func (c *client) send(frame any) {
	c.t.Helper()
	b, err := json.Marshal(frame)
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	if err := c.ws.Write(ctx, websocket.MessageText, b); err != nil {
		c.t.Fatal(err)
	}
}

// say sends an application message.
func (c *client) say(id string, body any) {
	c.t.Helper()
	c.send(map[string]any{"t": "msg", "id": id, "body": body})
}

// read returns the next frame that is no heartbeat.
func (c *client) read() (got, error) {
	ctx, cancel := context.WithTimeout(c.t.Context(), patience)
	defer cancel()
	for {
		_, b, err := c.ws.Read(ctx)
		if err != nil {
			return got{}, err
		}
		var g got
		if err := json.Unmarshal(b, &g); err != nil || g.T != "hb" {
			return g, err
		}
	}
}

// next returns the next frame, which must be of that type.
func (c *client) next(t string) got {
	c.t.Helper()
	g, err := c.read()
	if err != nil {
		c.t.Fatalf("waiting for %s: %v", t, err)
	}
	if g.T != t {
		c.t.Fatalf("got %+v, want a frame %s", g, t)
	}
	return g
}

// eventually polls until ok is true.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		if err := pause.For(t.Context(), 5*time.Millisecond); err != nil {
			t.Fatal(err)
		}
	}
}
