package docs_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

// A conversation is played line by line: C is sent, S is expected, A is done by the
// application, X cuts the connection, and the next C dials again.
func TestConversationsHappenSo(t *testing.T) {
	for _, b := range blocksOf(t, "wire") {
		t.Run(b.String(), func(t *testing.T) {
			p := newPlay(t)
			for i, line := range strings.Split(strings.TrimSuffix(b.code, "\n"), "\n") {
				who, what, _ := strings.Cut(line, " ")
				if err := p.act(who, what); err != nil {
					t.Fatalf("%s:%d: %v", b.document, b.line+i, err)
				}
			}
			if n := len(p.heard); n > 0 {
				t.Errorf("%d more frames: %s", n, p.heard)
			}
		})
	}
}

// play is one conversation with a real server.
type play struct {
	ctx    context.Context //nolint:containedctx // that of one test
	url    string
	server *server.Server
	conn   *websocket.Conn // nil until it is dialled
	heard  []json.RawMessage
	names  map[string]string // what a word in capitals stands for

	mu     sync.Mutex
	state  map[string]json.RawMessage
	orders int
}

func newPlay(t *testing.T) *play {
	t.Helper()
	p := &play{names: make(map[string]string), state: make(map[string]json.RawMessage)}
	var err error
	p.server, err = server.New(server.Options{
		NoOrigin:     true,
		Authenticate: func(*http.Request) (server.Identity, error) { return server.Identity{User: "ada"}, nil },
		Authorize: func(_ context.Context, _ server.Identity, stream string) error {
			if stream == "secret" {
				return errors.New("secret")
			}
			return nil
		},
		Snapshot:  p.snapshot,
		OnMessage: p.order,
	})
	if err != nil {
		t.Fatal(err)
	}
	site := httptest.NewServer(p.server)
	p.url = site.URL
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	p.ctx = ctx
	t.Cleanup(func() {
		cancel()
		p.cut()
		_ = p.server.Close()
		site.Close()
	})
	return p
}

// snapshot is the last price; nothing else has one.
func (p *play) snapshot(_ context.Context, stream string) (server.Snapshot, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if stream != "prices" {
		return server.Snapshot{}, server.ErrNoSnapshot
	}
	return server.Snapshot{State: p.state[stream]}, nil
}

// order numbers orders, so that one that is handled twice would show.
func (p *play) order(_ context.Context, m server.Message) (json.RawMessage, error) {
	var body struct{ Buy int }
	if err := json.Unmarshal(m.Body, &body); err != nil || body.Buy <= 0 {
		return nil, &server.Refusal{Code: "bad-order", Reason: "buy must be above zero"}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.orders++
	return fmt.Appendf(nil, `"order %d"`, p.orders), nil
}

func (p *play) act(who, what string) error {
	switch who {
	case "A":
		return p.apply(what)
	case "C":
		return p.send(what)
	case "S":
		return p.expect(what)
	case "X":
		p.cut()
		return nil
	}
	return errors.New("a line begins with A, C, S or X")
}

func (p *play) apply(what string) error {
	verb, rest, _ := strings.Cut(what, " ")
	to, data, _ := strings.Cut(rest, " ")
	switch verb {
	case "publish":
		p.mu.Lock()
		p.state[to] = json.RawMessage(data)
		p.mu.Unlock()
		_, err := p.server.Publish(p.ctx, to, []byte(data))
		return err
	case "publish-to":
		sessions, err := p.server.PublishTo(p.ctx, to, []byte(data))
		if err == nil && sessions != 1 {
			err = errors.New("published to " + strconv.Itoa(sessions) + " sessions, want 1")
		}
		return err
	}
	return errors.New("the application can publish and publish-to")
}

func (p *play) cut() {
	if p.conn != nil {
		_ = p.conn.CloseNow() // it is to be rude
	}
	p.conn = nil
}

var word = regexp.MustCompile(`"([A-Z]{2,})"`)

func (p *play) send(frame string) (err error) {
	if p.conn == nil {
		if p.conn, _, err = websocket.Dial(p.ctx, p.url, nil); err != nil {
			return err
		}
	}
	frame = word.ReplaceAllStringFunc(frame, func(quoted string) string {
		return strconv.Quote(p.names[strings.Trim(quoted, `"`)])
	})
	if _, err := wire.Decode([]byte(frame)); err != nil {
		return err
	}
	return p.conn.Write(p.ctx, websocket.MessageText, []byte(frame))
}

func (p *play) expect(frame string) error {
	for len(p.heard) == 0 {
		_, message, err := p.conn.Read(p.ctx)
		if err != nil {
			return err
		}
		if message[0] == '[' {
			err = json.Unmarshal(message, &p.heard)
		} else {
			p.heard = append(p.heard, message)
		}
		if err != nil {
			return err
		}
	}
	got := p.heard[0]
	p.heard = p.heard[1:]
	var wanted, is any
	if err := errors.Join(json.Unmarshal([]byte(frame), &wanted), json.Unmarshal(got, &is)); err != nil {
		return err
	}
	if !p.agrees(wanted, is) {
		return errors.New("the server says " + string(got))
	}
	return nil
}

// agrees compares JSON values. The first text that stands where a word in capitals is
// expected is what the word stands for from then on.
func (p *play) agrees(wanted, is any) bool {
	switch wanted := wanted.(type) {
	case map[string]any:
		object, ok := is.(map[string]any)
		for name, value := range wanted {
			ok = ok && p.agrees(value, object[name])
		}
		return ok && len(object) == len(wanted)
	case string:
		text, ok := is.(string)
		if !ok || !word.MatchString(strconv.Quote(wanted)) {
			return ok && text == wanted
		}
		if _, known := p.names[wanted]; !known {
			p.names[wanted] = text
		}
		return p.names[wanted] == text
	}
	return reflect.DeepEqual(wanted, is)
}
