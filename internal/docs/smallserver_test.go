package docs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/reconnect"
)

// Written by "A small server" of PROTOCOL.md, with nothing of package wire. It has one
// stream, "list", and one user.
type smallServer struct {
	frames func() int // after how many a connection is cut off

	mu       sync.Mutex
	epoch    string
	list     []int // all numbers: event n is list[n-1], and the state at n is list[:n]
	first    int   // lowest position that is covered
	grown    chan struct{}
	sessions map[string]*smallSession
	answers  map[string]string // to messages, by id
	handled  map[string]int
	cuts     int
}

type smallSession struct {
	gen  uint64
	conn *websocket.Conn
}

const kept = 30 // events

func (s *smallServer) publish(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.list = append(s.list, n)
	s.first = max(s.first, len(s.list)-kept)
	close(s.grown)
	s.grown = make(chan struct{})
}

func (s *smallServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	ws, err := websocket.Accept(w, r, nil)
	if err != nil {
		return
	}
	defer ws.CloseNow() //nolint:errcheck // it is to be rude
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	var resume frame
	if read(ctx, ws, &resume) != nil || resume.T != "resume" {
		return
	}
	c := &smallConn{server: s, ws: ws, left: s.frames(), wake: make(chan struct{}, 1)}
	if !c.welcome(ctx, resume) {
		return
	}
	var writing sync.WaitGroup
	defer writing.Wait()
	defer cancel()
	writing.Go(func() { c.write(ctx) })
	for {
		var f frame
		if read(ctx, ws, &f) != nil {
			return
		}
		c.hear(f)
	}
}

func read(ctx context.Context, ws *websocket.Conn, f *frame) error {
	_, text, err := ws.Read(ctx)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, f)
}

// smallConn is one connection: where it stands in the stream, and what it has to say.
type smallConn struct {
	server *smallServer
	ws     *websocket.Conn
	left   int // frames until it is cut off
	wake   chan struct{}

	// Guarded by the server's mu.
	follows bool
	owes    bool // a snapshot
	at      int
	said    []any // frames that are not events
}

// welcome confirms the session, or refuses a connection that is not its newest.
func (c *smallConn) welcome(ctx context.Context, f frame) bool {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	session := s.sessions[f.Session]
	if session == nil {
		f.Session = fmt.Sprint("session-", len(s.sessions))
		session = &smallSession{}
		s.sessions[f.Session] = session
	}
	if f.Gen <= session.gen {
		_ = c.ws.Close(4409, fmt.Sprint("gen=", session.gen)) // it may have gone
		return false
	}
	if session.conn != nil {
		_ = session.conn.CloseNow() // or 4409, where there is time for it
	}
	session.gen, session.conn = f.Gen, c.ws
	subs := map[string]any{}
	for name, want := range f.Subs {
		subs[name] = c.answer(name, want)
	}
	welcome := map[string]any{
		"t": "welcome", "v": 1, "session": f.Session, "gen": f.Gen, "user": "ada", "seq": 0, "epoch": "own", "first": 0, "resync": false,
		"heartbeat": 15000, "window": 8, "spread": 1, "dedupe": map[string]any{"id": s.epoch, "ms": 600_000}, "subs": subs,
	}
	return write(ctx, c.ws, welcome) == nil
}

// answer says where the stream stands, and what follows.
func (c *smallConn) answer(name string, want *frame) map[string]any {
	s := c.server
	if name != "list" {
		return map[string]any{"error": "forbidden"}
	}
	head := len(s.list)
	covered := want.After != nil && want.Epoch == s.epoch && s.first <= int(*want.After) && int(*want.After) <= head //nolint:gosec // compared with the head next
	switch {
	case !covered:
		c.owes = true
	case c.follows:
		c.at = min(c.at, int(*want.After)) //nolint:gosec // covered
	default:
		c.at = int(*want.After) //nolint:gosec // covered
	}
	c.follows = true
	return map[string]any{"seq": head, "epoch": s.epoch, "first": s.first, "resync": !covered}
}

func (c *smallConn) hear(f frame) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch f.T {
	case "sub":
		subbed := c.answer(f.Stream, &f)
		subbed["t"], subbed["stream"] = "subbed", f.Stream
		c.said = append(c.said, subbed)
	case "unsub":
		c.follows = c.follows && f.Stream != "list"
	case "ping":
		c.said = append(c.said, map[string]any{"t": "pong", "n": f.N})
	case "msg":
		if s.answers[f.ID] == "" {
			s.handled[f.ID]++
			s.answers[f.ID] = fmt.Sprint("answer to ", f.ID)
		}
		c.said = append(c.said, map[string]any{"t": "ack", "id": f.ID, "result": s.answers[f.ID]})
	}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// write writes what there is, until the connection is to be cut off.
func (c *smallConn) write(ctx context.Context) {
	for {
		next, grown := c.next()
		if next == nil {
			select {
			case <-grown:
			case <-c.wake:
			case <-ctx.Done():
				return
			}
			continue
		}
		if c.left--; c.left < 0 {
			c.cut()
			return
		}
		if write(ctx, c.ws, next) != nil {
			return
		}
	}
}

// cut ends the connection. Without a word it does so four times: a message that five
// connections in a row are lost after is given up by the client.
func (c *smallConn) cut() {
	s := c.server
	s.mu.Lock()
	s.cuts++
	rude := s.cuts <= 4
	s.mu.Unlock()
	if rude {
		_ = c.ws.CloseNow()
	} else {
		_ = c.ws.Close(1012, "retry=0-1")
	}
}

// next returns the next frame, or what to wait for.
func (c *smallConn) next() (frame any, grown <-chan struct{}) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(c.said) > 0:
		frame = c.said[0]
		c.said = c.said[1:]
	case c.follows && (c.owes || c.at < s.first):
		if !c.owes { // fell behind
			c.owes = true
			return map[string]any{
				"t": "reset", "stream": "list", "seq": len(s.list), "epoch": s.epoch, "first": s.first, "snapshot": true,
			}, nil
		}
		c.owes, c.at = false, len(s.list)
		frame = map[string]any{"t": "snapshot", "stream": "list", "seq": c.at, "epoch": s.epoch, "state": slices.Clone(s.list)}
	case c.follows && c.at < len(s.list):
		c.at++
		frame = map[string]any{"t": "event", "stream": "list", "seq": c.at, "data": s.list[c.at-1]}
	}
	return frame, s.grown
}

// A server that knows PROTOCOL.md alone serves our client: nothing is missed and
// nothing comes twice, however often a connection is cut off.
func TestASmallServerServesOurClient(t *testing.T) {
	const numbers, messages = 400, 20
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	random := rand.New(rand.NewPCG(seed, 0))
	s := &smallServer{
		epoch: "e1", list: []int{}, grown: make(chan struct{}), sessions: make(map[string]*smallSession),
		answers: make(map[string]string), handled: make(map[string]int),
	}
	upTo := func(n int) int {
		mu.Lock()
		defer mu.Unlock()
		return 1 + random.IntN(n)
	}
	s.frames = func() int { return upTo(60) }
	site := httptest.NewServer(s)
	defer site.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()

	client, err := reconnect.NewClient(reconnect.Options{
		URL:    func(context.Context) (string, error) { return site.URL, nil },
		Policy: reconnect.Policy{Base: time.Millisecond, Cap: time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []int
	published := 0
	complete := make(chan struct{}, 1)
	took := func() { // whenever it has caught up there is more, sometimes than is kept
		if len(got) < published {
			return
		}
		if published == numbers {
			select {
			case complete <- struct{}{}:
			default: // said
			}
			return
		}
		for range min(upTo(2*kept), numbers-published) {
			published++
			s.publish(published)
		}
	}
	_, err = client.Subscribe("list", nil, reconnect.Handler{
		Snapshot: func(snapshot reconnect.SnapshotInfo) {
			got = nil
			if failed := json.Unmarshal(snapshot.State, &got); failed != nil {
				t.Error(failed)
			}
			took()
		},
		Event: func(event reconnect.EventInfo) {
			var n int
			if failed := json.Unmarshal(event.Data, &n); failed != nil {
				t.Error(failed)
			}
			got = append(got, n)
			took()
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var running, sending sync.WaitGroup
	running.Go(func() { _ = client.Run(ctx) }) // ends by cancel
	for i := range messages {
		sending.Go(func() {
			if _, failed := client.Send(ctx, json.RawMessage(fmt.Sprint(i))); failed != nil {
				t.Error(failed)
			}
		})
	}
	sending.Wait()
	select {
	case <-complete:
	case <-ctx.Done():
		t.Errorf("not complete: %s", client.Status().Reason)
	}
	cancel()
	running.Wait()
	totals := client.Totals()
	t.Logf("%d sessions, %d events replayed, %d gaps", totals.Sessions, totals.Replayed, totals.Gaps)
	for i, n := range got {
		if n != i+1 {
			t.Fatalf("number %d is %d", i+1, n)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id, n := range s.handled {
		if n != 1 {
			t.Errorf("message %s was handled %d times", id, n)
		}
	}
	if len(s.handled) != messages {
		t.Errorf("%d messages were handled, want %d", len(s.handled), messages)
	}
}
