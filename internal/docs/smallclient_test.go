package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/stream"
)

// Written by "A small client" of PROTOCOL.md, with nothing of package wire: what that
// page does not say, this client does not do.

// frame is every member that it reads.
type frame struct {
	T        string            `json:"t"`
	Session  string            `json:"session"`
	User     string            `json:"user"`
	Stream   string            `json:"stream"`
	Seq      uint64            `json:"seq"`
	From     uint64            `json:"from"`
	After    *uint64           `json:"after"`
	Epoch    string            `json:"epoch"`
	Resync   bool              `json:"resync"`
	Snapshot bool              `json:"snapshot"`
	Error    string            `json:"error"`
	Data     json.RawMessage   `json:"data"`
	State    []int             `json:"state"`
	ID       string            `json:"id"`
	Gen      uint64            `json:"gen"`
	N        uint64            `json:"n"`
	Subs     map[string]*frame `json:"subs"`
}

// smallClient follows the stream "list", whose events are numbers and whose state is
// all of them, and sends messages.
type smallClient struct {
	session, user string
	gen           uint64
	after         *uint64 // nil: no position
	epoch         string
	waits         bool // for a snapshot, or for the answer to a sub

	list   []int
	unsent []string // ids without an answer
}

// visit makes one connection and handles so many frames of it, or all until the list
// has n numbers and every message its answer.
func (c *smallClient) visit(ctx context.Context, url string, frames, n int) (done bool, err error) {
	ws, _, err := websocket.Dial(ctx, url, nil)
	if err != nil {
		return false, err
	}
	defer ws.CloseNow() //nolint:errcheck // it is to be rude
	c.gen++
	list := map[string]any{}
	if c.after != nil {
		list = map[string]any{"after": *c.after, "epoch": c.epoch}
	}
	resume := map[string]any{"t": "resume", "v": 1, "gen": c.gen, "subs": map[string]any{"list": list}, "batch": c.gen%2 == 0}
	if c.session != "" {
		resume["session"], resume["user"] = c.session, c.user
	}
	if err := write(ctx, ws, resume); err != nil {
		return false, err
	}
	for frames > 0 {
		_, message, err := ws.Read(ctx)
		if err != nil {
			return false, err
		}
		var heard []frame
		if message[0] != '[' {
			message = slices.Concat([]byte("["), message, []byte("]"))
		}
		if err := json.Unmarshal(message, &heard); err != nil {
			return false, err
		}
		for _, f := range heard {
			if err := c.hear(ctx, ws, f); err != nil {
				return false, err
			}
			if len(c.list) == n && len(c.unsent) == 0 {
				return true, nil
			}
			frames--
		}
	}
	return false, nil
}

func write(ctx context.Context, ws *websocket.Conn, frame any) error {
	text, err := json.Marshal(frame)
	if err != nil {
		return err
	}
	return ws.Write(ctx, websocket.MessageText, text)
}

func (c *smallClient) hear(ctx context.Context, ws *websocket.Conn, f frame) error {
	switch f.T {
	case "welcome":
		c.session, c.user, c.gen = f.Session, f.User, f.Gen
		for _, id := range c.unsent { // fewer than the window
			if err := write(ctx, ws, map[string]any{"t": "msg", "id": id, "body": id}); err != nil {
				return err
			}
		}
		return c.answer(f.Subs["list"])
	case "subbed":
		return c.answer(&f)
	case "snapshot":
		if f.Stream == "list" && c.waits {
			c.list, c.after, c.epoch, c.waits = f.State, &f.Seq, f.Epoch, false
		}
	case "reset":
		if !f.Snapshot {
			return errors.New("a gap that nothing bridges: " + f.Epoch)
		}
		c.after, c.waits = nil, true
	case "event":
		return c.events(ctx, ws, f.Seq, f.Data)
	case "events":
		var data []json.RawMessage
		if err := json.Unmarshal(f.Data, &data); err != nil {
			return err
		}
		return c.events(ctx, ws, f.From, data...)
	case "ack":
		c.unsent = slices.DeleteFunc(c.unsent, func(id string) bool { return id == f.ID })
	case "nack":
		return errors.New("message " + f.ID + " was refused")
	}
	return nil
}

func (c *smallClient) answer(a *frame) error {
	switch {
	case a == nil || a.Error != "":
		return fmt.Errorf("no answer, or a bad one: %+v", a)
	case a.Resync:
		c.after, c.waits = nil, true
	default:
		c.waits = false
		if c.after == nil {
			c.after, c.epoch = &a.Seq, a.Epoch
		}
	}
	return nil
}

func (c *smallClient) events(ctx context.Context, ws *websocket.Conn, seq uint64, data ...json.RawMessage) error {
	for _, event := range data {
		switch {
		case c.waits || c.after == nil || seq <= *c.after:
		case seq == *c.after+1:
			var n int
			if err := json.Unmarshal(event, &n); err != nil {
				return err
			}
			c.list = append(c.list, n)
			*c.after = seq
		default:
			c.waits = true
			return write(ctx, ws, map[string]any{"t": "sub", "stream": "list", "after": *c.after, "epoch": c.epoch})
		}
		seq++
	}
	return nil
}

// list is the application: numbers that are published, and all of them as a state.
type list struct {
	mu    sync.Mutex
	all   []int
	seq   uint64
	count map[string]int // how often each message was handled
}

func (l *list) publish(ctx context.Context, s *server.Server, n int) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, n)
	l.seq, err = s.Publish(ctx, "list", fmt.Append(nil, n))
	return err
}

func (l *list) snapshot(_ context.Context, name string) (server.Snapshot, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if name != "list" {
		return server.Snapshot{}, server.ErrNoSnapshot
	}
	state, err := json.Marshal(append([]int{}, l.all...))
	return server.Snapshot{State: state, HasSeq: true, Seq: l.seq}, err
}

func (l *list) handle(_ context.Context, m server.Message) (json.RawMessage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count[m.ID]++
	return nil, nil
}

// A client that knows PROTOCOL.md alone misses nothing of our server, and has nothing
// twice, however often it is cut off, and when it was away for longer than the log.
func TestASmallClientFollowsOurServer(t *testing.T) {
	const numbers, messages = 400, 20
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	l := &list{count: make(map[string]int)}
	s, err := server.New(server.Options{
		NoOrigin: true, Snapshot: l.snapshot, OnMessage: l.handle,
		Log:       stream.Limits{Events: 30},
		Admission: server.Admission{Handshakes: 1e6, Welcomes: 1e6, MessageRate: 1e6},
	})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(s)
	defer site.Close()
	defer s.Close() //nolint:errcheck // is always nil

	c := &smallClient{}
	for i := range messages {
		c.unsent = append(c.unsent, fmt.Sprint("m-", i))
	}
	published := 0
	for done := false; !done || published < numbers; {
		for range min(random.IntN(60), numbers-published) {
			published++
			if err = l.publish(ctx, s, published); err != nil {
				t.Fatal(err)
			}
		}
		if done, err = c.visit(ctx, site.URL, 1+random.IntN(12), published); err != nil {
			t.Fatal(err)
		}
	}
	for i, n := range c.list {
		if n != i+1 {
			t.Fatalf("number %d is %d", i+1, n)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, n := range l.count {
		if n != 1 {
			t.Errorf("message %s was handled %d times", id, n)
		}
	}
	if len(l.count) != messages {
		t.Errorf("%d messages were handled, want %d", len(l.count), messages)
	}
}
