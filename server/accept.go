package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

// ServeHTTP is the WebSocket endpoint. It authenticates, upgrades, waits for the
// client's resume, confirms the session and returns; the connection lives on.
// Timeouts of the http.Server do not apply to it.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !s.enter() {
		s.reject(w, http.StatusServiceUnavailable)
		return
	}
	defer s.wg.Done()
	id, status := s.admit(r)
	if status != 0 {
		s.reject(w, status)
		return
	}
	c := newConn(s, id)
	ws, err := websocket.Accept(&hijackWriter{w, c.sock}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // admit has looked at the origin
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived:     c.pinged,
	})
	if err != nil {
		return // Accept has answered
	}
	s.counters.upgrades.Add(1)
	c.ws = ws
	ws.SetReadLimit(-1) // readMessage has a limit of its own
	if !s.add(c) {
		c.sayGoodbye(wire.CloseGoingAway, "server closed")
		return
	}
	c.greet() //nolint:contextcheck // the connection outlives the request
}

// pinged notes a ping of the WebSocket layer: the writer answers it, and only the
// latest if they come faster, as RFC 6455 section 5.5.3 allows.
func (c *conn) pinged(_ context.Context, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pong = append([]byte{}, payload...)
	poke(c.wake)
	return false
}

// admit decides on a request: with a status other than 0 it is refused.
func (s *Server) admit(r *http.Request) (id Identity, status int) {
	if !s.allowsOrigin(r) {
		return Identity{}, http.StatusForbidden
	}
	if s.opts.Authenticate == nil {
		return Identity{}, 0
	}
	err := s.guard("Authenticate", func() (err error) {
		id, err = s.opts.Authenticate(r)
		return err
	})
	switch {
	case errors.Is(err, ErrUnauthorized):
		return id, http.StatusUnauthorized
	case errors.Is(err, ErrForbidden):
		return id, http.StatusForbidden
	case err != nil:
		s.log.Error("longwire: Authenticate failed", "error", err)
		return id, http.StatusServiceUnavailable
	case len(id.User) > wire.MaxUser || !utf8.ValidString(id.User):
		s.log.Error("longwire: Authenticate: user must be at most 256 bytes of UTF-8", "bytes", len(id.User))
		return id, http.StatusServiceUnavailable
	case !id.Expires.IsZero() && !time.Now().Before(id.Expires):
		return id, http.StatusUnauthorized
	}
	return id, 0
}

func (s *Server) allowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return true // not a browser, or the page's own host
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null", say: of a sandboxed page
	}
	return strings.EqualFold(u.Host, r.Host) || slices.Contains(s.opts.Origins, strings.ToLower(origin))
}

// retryAfter is what a 503 asks for, in seconds.
const retryAfter = 5

func (s *Server) reject(w http.ResponseWriter, status int) {
	s.counters.rejected.Add(1)
	w.Header().Set("Cache-Control", "no-store")
	if status == http.StatusServiceUnavailable {
		w.Header().Set("Retry-After", strconv.Itoa(retryAfter))
	}
	http.Error(w, http.StatusText(status), status)
}

// greet waits for the resume and answers it. Whatever happens, the connection is
// closed or in the hands of its goroutines when it returns.
func (c *conn) greet() {
	c.sock.readBy(time.Now().Add(c.s.opts.HelloTimeout))
	var resume wire.Resume
	err := c.readMessage(wire.MaxResume, func(msg []byte) error {
		frame, err := decode(msg)
		if err != nil {
			return err
		}
		var ok bool
		if resume, ok = frame.(wire.Resume); !ok {
			return badFrame(frame.Type() + ": the first frame must be resume")
		}
		return nil
	})
	c.sock.readBy(time.Time{})
	if err == nil {
		err = c.welcome(resume)
	}
	if err != nil {
		c.dismiss(err)
		return
	}
	c.mu.Lock()
	c.greeting = false
	c.mu.Unlock()
	c.s.wg.Go(c.readLoop)
	c.s.wg.Go(c.writeLoop)
}

// dismiss closes a connection that gets no welcome.
func (c *conn) dismiss(err error) {
	c.mu.Lock()
	bye := c.bye
	c.mu.Unlock()
	f, isFault := errors.AsType[*fault](err)
	switch {
	case bye != nil:
		c.sayGoodbye(bye.code, bye.reason)
	case isFault:
		if f.code != wire.CloseNotNewest {
			c.s.counters.malformed.Add(1)
			c.s.log.Debug("longwire: no welcome", "code", f.code, "reason", f.reason)
		}
		c.sayGoodbye(f.code, f.reason)
	case errors.Is(err, os.ErrDeadlineExceeded):
		c.s.counters.silent.Add(1)
		c.sayGoodbye(wire.CloseNoSignOfLife, "resume: not received within "+c.s.opts.HelloTimeout.String())
	default:
		c.end()
		_ = c.ws.CloseNow() // releases what the library holds
	}
}

// welcome answers the resume. Fencing comes last: nothing that can fail does so
// after the older connection has lost its session.
func (c *conn) welcome(r wire.Resume) error {
	if r.User != "" && r.User != c.identity.User {
		return &fault{wire.CloseForbidden, "resume: user: not the authenticated one"}
	}
	c.base = r.V == 0
	c.batch = r.Batch && !c.base

	subs := make(map[string]wire.Answer, len(r.Subs))
	var follows []*follow
	var unpositioned []*topic
	for i, name := range slices.Sorted(maps.Keys(r.Subs)) {
		if i >= c.s.opts.Follows {
			subs[name] = wire.Answer{Error: wire.ErrLimit}
			continue
		}
		f, refused := c.follow(name)
		if f == nil {
			subs[name] = refused
			continue
		}
		follows = append(follows, f)
		if !r.Subs[name].Has {
			unpositioned = append(unpositioned, f.topic)
		}
	}
	learned := c.learn(unpositioned)

	if err := c.fence(r); err != nil {
		return err
	}
	own := &follow{topic: c.session.own}
	resumed := c.session.id == r.Session
	if c.base && r.Own.Has && resumed {
		// The session id stands for the epoch.
		r.Own.Epoch = own.topic.log.Epoch()
	}
	var learnedOwn *flight
	if !r.Own.Has {
		learnedOwn = c.learn([]*topic{own.topic})[own.topic]
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return errGone
	}
	c.follows = append(c.follows, own)
	for _, f := range follows {
		subs[f.topic.name] = c.ask(f, r.Subs[f.topic.name], learned[f.topic])
	}
	c.answerLocked(c.welcomeFrame(c.ask(own, r.Own, learnedOwn), subs))
	c.s.counters.welcomes.Add(1)
	if resumed {
		c.s.counters.resumed.Add(1)
	}
	return nil
}

var errGone = errors.New("server: connection is gone")

// fence takes the session over from its older connection, or reports that this is
// not the newest one.
func (c *conn) fence(r wire.Resume) error {
	sess, old, gen, ok := c.s.sessions.attach(c, r.Session, c.identity.User, r.Gen)
	if !ok {
		return &fault{wire.CloseNotNewest, wire.GenReason(gen)}
	}
	c.session, c.gen = sess, gen
	if old != nil {
		c.s.counters.superseded.Add(1)
		old.close(closing{code: wire.CloseNotNewest, reason: wire.GenReason(gen), dropQueue: true})
	}
	return nil
}

func (c *conn) welcomeFrame(own wire.Answer, subs map[string]wire.Answer) wire.Frame {
	o := &c.s.opts
	w := wire.Welcome{
		V:         wire.Version,
		Session:   c.session.id,
		Own:       own,
		Heartbeat: o.Heartbeat.Milliseconds(),
		MaxFrame:  wire.MaxClientFrame,
		Window:    int64(o.Window),
		Spread:    o.Spread.Milliseconds(),
		DedupeID:  c.session.memory.id,
		DedupeMs:  o.DedupeWindow.Milliseconds(),
		Subs:      subs,
	}
	if !c.base {
		w.Gen, w.User = c.gen, c.identity.User
	}
	return w
}
