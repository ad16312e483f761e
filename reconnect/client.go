//go:build !js

package reconnect

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	mathrand "math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"sync"

	"github.com/longwire/longwire/wire"
)

// Options configure a [Client]. Only URL is required.
type Options struct {
	// URL returns where to dial. It is called before every dial, so that a token
	// in it can be fresh; an error counts as a failed attempt. Policy.URLTimeout
	// ends its context.
	URL func(ctx context.Context) (string, error)
	// Header, if set, returns the headers of the handshake and of the probe. It
	// is called after URL, as often.
	Header func(ctx context.Context) (http.Header, error)
	// Probe is the URL of the server's probe handler. Empty: no probing.
	Probe string
	// HTTPClient dials and probes. Nil: http.DefaultClient. Redirects of the
	// probe are never followed.
	HTTPClient *http.Client
	// Policy holds the numbers; Rand defaults to math/rand/v2, Probe is set here.
	Policy Policy
	// OnState, if set, is called on every change of state, in order, from the
	// goroutine that calls the handlers.
	OnState func(Status)
	// Logger, if set, is told of every change of state (level info; an end with a
	// cause other than CauseClosed: warn) and of problems (warn). No record holds a
	// URL, a payload or a token.
	Logger *slog.Logger
	// OnProblem, if set, is told of things that are wrong and coped with: a bad
	// frame, a hole. The text holds no payload and no token.
	OnProblem func(text string)
}

// Client is a native client. All methods are safe for concurrent use, also from
// handlers; but a handler that waits for its own client, for the result of a
// Send say, holds up all further deliveries while it does.
type Client struct {
	o   Options
	m   *Machine
	ids string // prefix of the ids of messages: unique per client

	wake  chan struct{}    // 1-buffered: mail is not empty
	inbox chan Event       // from the current and former links
	links map[uint64]*link // only touched by the goroutine of Run
	// following holds the subscriptions that the machine knows; as links.
	following map[string]*Subscription

	// machine guards m: the goroutine of Run drives it, anybody may look.
	machine sync.Mutex

	mu      sync.Mutex
	running bool
	mail    []Event
	sent    uint64
	waiting map[string]chan Settle
	subs    map[string]*Subscription
	status  Status

	deliveries deliveries
}

// NewClient returns a client that does nothing until Run, or an error that names
// every option that is wrong.
func NewClient(o Options) (*Client, error) {
	var errs []error
	if o.URL == nil {
		errs = append(errs, errors.New("reconnect: URL: missing"))
	}
	if o.Probe != "" {
		if u, err := url.Parse(o.Probe); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			errs = append(errs, errors.New("reconnect: Probe: must be an absolute http or https URL"))
		}
	}
	if o.HTTPClient == nil {
		o.HTTPClient = http.DefaultClient
	}
	if o.Policy.Rand == nil {
		o.Policy.Rand = mathrand.Float64
	}
	o.Policy.Probe = o.Probe != ""
	m, err := NewMachine(o.Policy)
	if errs = append(errs, err); errors.Join(errs...) != nil {
		return nil, errors.Join(errs...)
	}
	return &Client{
		o: o, m: m,
		ids:        rand.Text(),
		wake:       make(chan struct{}, 1),
		inbox:      make(chan Event),
		links:      make(map[uint64]*link),
		following:  make(map[string]*Subscription),
		waiting:    make(map[string]chan Settle),
		subs:       make(map[string]*Subscription),
		deliveries: newDeliveries(),
	}, nil
}

// EndError is why Run returned: the client ended and will not try again by
// itself. Calling Run once more starts afresh.
type EndError struct {
	Cause  string // one of the Cause constants
	Reason string
}

func (e *EndError) Error() string { return "reconnect: " + e.Cause + ": " + e.Reason }

// ErrRunning is returned by Run when another Run is under way.
var ErrRunning = errors.New("reconnect: already running")

// Run connects, and keeps connected, until ctx is done (it then returns the
// cause of ctx) or the client ends (it then returns an *EndError). It owns every
// goroutine of the client and waits for them; handlers are called while it runs
// only. When it returns every message has been settled.
func (c *Client) Run(ctx context.Context) error {
	c.mu.Lock()
	if c.running {
		c.mu.Unlock()
		return ErrRunning
	}
	c.running = true
	c.mu.Unlock()

	runCtx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	d := &driver{Client: c, ctx: runCtx}
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		c.deliveries.run()
	}()

	err := d.loop(ctx)

	d.finish(delivered)
	cancel()
	d.wg.Wait()
	return err
}

// post queues an event for the loop. It never blocks.
func (c *Client) post(ev Event) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.postLocked(ev)
}

// postLocked is post together with what else changes: the loop hears of changes in the
// order in which they were made. It needs c.mu.
func (c *Client) postLocked(ev Event) {
	c.mail = append(c.mail, ev)
	signal(c.wake)
}

func (c *Client) takeMail() []Event {
	c.mu.Lock()
	defer c.mu.Unlock()
	mail := c.mail
	c.mail = nil
	return mail
}

// Notify tells the client what has changed around it: a network that came back,
// say. A live link is verified, a wait is cut short.
func (c *Client) Notify(kind SignalKind) { c.post(Signal{kind}) }

// ReconnectNow dials at once, undercutting every wait; a live link is verified.
func (c *Client) ReconnectNow() { c.post(DialNow{}) }

// Status returns where the client stands, as of the last event it handled.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.status
}

// Totals returns what the client has done so far.
func (c *Client) Totals() Totals {
	c.machine.Lock()
	defer c.machine.Unlock()
	return c.m.Totals()
}

// History returns the last 200 changes of state, oldest first.
func (c *Client) History() []Transition {
	c.machine.Lock()
	defer c.machine.Unlock()
	return c.m.History()
}

// Pending returns the messages that are not settled, in order.
func (c *Client) Pending() []PendingMessage {
	c.machine.Lock()
	defer c.machine.Unlock()
	return c.m.Pending()
}

// Clear withdraws every message that is not settled: each Send returns an error
// that says whether it may have taken effect.
func (c *Client) Clear() { c.post(Clear{}) }

// SendError says what became of a message that was not accepted.
type SendError struct {
	ID      string
	Outcome Outcome // Refused, NotSent or Unknown
	Code    string  // a word for programs
	Reason  string
}

func (e *SendError) Error() string {
	return fmt.Sprintf("reconnect: message %s: %s: %s: %s", e.ID, e.Outcome, e.Code, e.Reason)
}

// Send sends body, which must be valid JSON, and waits for the answer of the
// server's handler: its result, or a *SendError. Messages keep the order of their
// Sends. When ctx is done first the message is withdrawn: the error then says
// whether it was never sent or may have taken effect. Before Run a message waits.
func (c *Client) Send(ctx context.Context, body json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(body) {
		return nil, &SendError{Outcome: NotSent, Code: CodeInvalid, Reason: "the body is not valid JSON"}
	}
	answer := make(chan Settle, 1)
	c.mu.Lock()
	c.sent++
	id := c.ids + "-" + strconv.FormatUint(c.sent, 36)
	c.waiting[id] = answer
	c.postLocked(Send{ID: id, Body: wire.Raw(body)})
	c.mu.Unlock()
	var s Settle
	select {
	case s = <-answer:
	case <-ctx.Done():
		if c.withdraw(id) {
			return nil, &SendError{ID: id, Outcome: NotSent, Code: CodeCancelled, Reason: context.Cause(ctx).Error()}
		}
		c.post(Cancel{ID: id})
		s = <-answer
	}
	if s.Outcome != Accepted {
		return nil, &SendError{ID: id, Outcome: s.Outcome, Code: s.Code, Reason: s.Reason}
	}
	return json.RawMessage(s.Result), nil
}

// withdraw removes a Send that the loop has not seen yet: the only way to settle
// it while nobody runs.
func (c *Client) withdraw(id string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, ev := range c.mail {
		if s, ok := ev.(Send); ok && s.ID == id {
			c.mail = append(c.mail[:i], c.mail[i+1:]...)
			delete(c.waiting, id)
			return true
		}
	}
	return false
}

// settle answers the Send that waits for s.
func (c *Client) settle(s Settle) {
	c.mu.Lock()
	answer := c.waiting[s.ID]
	delete(c.waiting, s.ID)
	c.mu.Unlock()
	if answer != nil {
		answer <- s
	}
}
