package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing/synctest"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// simClient is a client with the application around it.
type simClient struct {
	w      *simWorld
	n      int
	user   string
	client *reconnect.Client
	cancel context.CancelFunc
	done   chan struct{}
	delay  atomic.Int64 // of the handlers of events
	sends  int
	follow map[string]*follower // by stream
	made   int                  // followers so far
}

func (w *simWorld) addClient(n int, user string) {
	c := &simClient{w: w, n: n, user: user, follow: make(map[string]*follower)}
	rng := mathrand.New(mathrand.NewPCG(w.p.Seed, uint64(n)))
	client, err := reconnect.NewClient(reconnect.Options{
		URL: func(ctx context.Context) (string, error) {
			switch w.url.Load() {
			case 1:
				return "", errors.New("no URL, as drawn")
			case 2:
				return "ws://server/ws", pause(ctx, 3*time.Second)
			case 3:
				return "ws://server/ws", pause(ctx, time.Minute)
			}
			return "ws://server/ws", nil
		},
		Header: func(context.Context) (http.Header, error) { return http.Header{"User": {user}}, nil },
		Probe:  "http://server/probe",
		HTTPClient: &http.Client{Transport: &http.Transport{
			DialContext: w.net.DialContext, DisableKeepAlives: true,
		}},
		Policy:    reconnect.Policy{Rand: rng.Float64},
		OnState:   c.state,
		OnProblem: c.problem,
	})
	if err != nil {
		w.fail("client: %v", err)
		return
	}
	c.client = client
	w.clients = append(w.clients, c)
	c.run()
}

func (c *simClient) state(s reconnect.Status) {
	c.w.note("client %d: %v %s %s", c.n, s.State, s.Cause, s.Reason)
	// Nobody else has the session, so nothing but a late frame could fence it.
	if strings.Contains(s.Reason, "4409: gen=") {
		c.w.fail("client %d: fenced by itself: %s", c.n, s.Reason)
	}
}

// problem judges what the client copes with: with a server without faults, nothing
// but a network that refuses a second connection.
func (c *simClient) problem(text string) {
	if strings.HasPrefix(text, "no second connection") {
		c.w.note("client %d: %s", c.n, text)
		return
	}
	c.w.fail("client %d: problem %s", c.n, text)
}

// run keeps the client running, as an application does that starts afresh after an
// end.
func (c *simClient) run() {
	ctx, cancel := context.WithCancel(c.w.ctx)
	done := make(chan struct{})
	c.cancel, c.done = cancel, done
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			err := c.client.Run(ctx)
			end, ok := errors.AsType[*reconnect.EndError](err)
			if ok && end.Cause != reconnect.CauseUnauthorized || !ok && ctx.Err() == nil {
				c.w.fail("client %d: Run: %v", c.n, err)
			}
			_ = pause(ctx, time.Second)
		}
	}()
}

func (c *simClient) stop() {
	c.cancel()
	<-c.done
}

// slow makes the handler of an event as slow as was drawn.
func (c *simClient) slow() { time.Sleep(time.Duration(c.delay.Load())) }

func (c *simClient) subscribe(name string, from *reconnect.Position) {
	if c.follow[name] != nil {
		return
	}
	key := name
	if name == "" {
		key = "own/" + c.user
	}
	c.made++
	f := &follower{l: c.w.ledger, c: c, key: key, own: name == "", name: fmt.Sprintf("client %d, %s, %d", c.n, key, c.made), state: -1}
	c.w.mu.Lock()
	f.before = len(c.w.log(key).entries)
	if from != nil {
		f.known, f.epoch, f.pos = true, from.Epoch, from.Seq
	}
	c.w.mu.Unlock()
	c.w.note("%s: subscribe from %+v", f.name, from)
	sub, err := c.client.Subscribe(name, from, f.handler())
	if err != nil {
		c.w.fail("%s: %v", f.name, err)
		return
	}
	c.w.mu.Lock()
	f.sub = sub
	c.w.mu.Unlock()
	c.follow[name] = f
}

// unsubscribe returns where the subscription stood.
func (c *simClient) unsubscribe(name string) *reconnect.Position {
	f := c.follow[name]
	if f == nil {
		return nil
	}
	delete(c.follow, name)
	f.sub.Unsubscribe()
	at, has := f.sub.Position()
	c.w.note("%s: unsubscribed at %+v %v", f.name, at, has)
	c.w.mu.Lock()
	f.gone = time.Now()
	c.w.mu.Unlock()
	if !has {
		return nil
	}
	return &at
}

func (c *simClient) send(kind string, limit time.Duration) {
	c.sends++
	s := &sent{client: c.n, n: c.sends, body: fmt.Sprintf(`{"Client":%d,"N":%d,"Kind":%q}`, c.n, c.sends, kind)}
	c.w.mu.Lock()
	c.w.sends = append(c.w.sends, s)
	c.w.noteLocked("send %s within %v", s.body, limit)
	c.w.mu.Unlock()
	go func() {
		ctx := c.w.ctx
		if limit > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, limit)
			defer cancel()
		}
		result, err := c.client.Send(ctx, json.RawMessage(s.body))
		c.w.answered(s, result, err)
	}()
	synctest.Wait() // the next one comes after it
}
