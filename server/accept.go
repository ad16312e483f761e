package server

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
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
	s.counters.handshakes.Add(1)
	if r.ProtoMajor == 1 {
		w.Header().Set("Connection", "close") // unless it is upgraded
	}
	if !s.enter() {
		s.deny(deniedClosed)
		reject(w, deniedClosed, 0)
		return
	}
	defer s.wg.Done()
	if d, retry := s.refuses(); d != notDenied {
		s.deny(d)
		reject(w, d, retry)
		return
	}
	if !s.allowsOrigin(r) {
		s.deny(deniedOrigin)
		reject(w, deniedOrigin, 0)
		return
	}
	address, d := s.addressOf(r)
	if d != notDenied {
		s.deny(d)
		reject(w, d, appRetry)
		return
	}
	if d, back := s.admission.enter(address); d != notDenied {
		s.deny(d)
		s.turnAway(w, r, d, back)
		return
	}
	c := s.upgrade(w, r)
	if c == nil {
		s.admission.leave(address)
		return
	}
	c.address = address
	if late := s.add(c); late != nil {
		c.dismiss(late)
		return
	}
	c.greet() //nolint:contextcheck // the connection outlives the request
}

// upgrade authenticates and upgrades, or answers the request and returns nil.
func (s *Server) upgrade(w http.ResponseWriter, r *http.Request) *conn {
	id, d := s.authenticate(r)
	if d != notDenied {
		s.deny(d)
		reject(w, d, appRetry)
		return nil
	}
	c := newConn(s, id)
	ws, err := websocket.Accept(&hijackWriter{w, c.sock}, r, &websocket.AcceptOptions{
		InsecureSkipVerify: true, // ServeHTTP has looked at the origin
		CompressionMode:    websocket.CompressionDisabled,
		Subprotocols:       s.opts.Subprotocols,
		OnPingReceived:     c.pinged,
	})
	if err != nil {
		s.deny(deniedBadUpgrade)
		return nil // Accept has answered
	}
	ws.SetReadLimit(-1) // readMessage has a limit of its own
	c.ws = ws
	return c
}

// pinged notes a ping of the WebSocket layer: the worker answers it, and only the
// latest if they come faster, as RFC 6455 section 5.5.3 allows.
func (c *conn) pinged(_ context.Context, payload []byte) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pong = append([]byte{}, payload...)
	c.wake()
	return false
}

// appRetry is when to come back after a function of the application's has failed.
const appRetry = 5 * time.Second

// authenticate asks the application who sends the request.
func (s *Server) authenticate(r *http.Request) (id Identity, d denial) {
	if s.opts.Authenticate == nil {
		return Identity{}, notDenied
	}
	err := s.guard("Authenticate", func() (err error) {
		id, err = s.opts.Authenticate(r)
		return err
	})
	switch {
	case errors.Is(err, ErrUnauthorized):
		return id, deniedUnauthorized
	case errors.Is(err, ErrForbidden):
		return id, deniedForbidden
	case err != nil:
		s.log.Error("longwire: Authenticate failed", "error", err)
		return id, deniedFailed
	case len(id.User) > wire.MaxUser || !utf8.ValidString(id.User):
		s.log.Error("longwire: Authenticate: user must be at most 256 bytes of UTF-8", "bytes", len(id.User))
		return id, deniedFailed
	case !id.Expires.IsZero() && !time.Now().Before(id.Expires):
		return id, deniedUnauthorized
	}
	return id, notDenied
}

func (s *Server) allowsOrigin(r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" {
		return s.opts.NoOrigin
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return false // "null", say: of a sandboxed page
	}
	return strings.EqualFold(u.Host, r.Host) || slices.Contains(s.opts.Origins, strings.ToLower(origin))
}

// greet waits for the resume and answers it. Whatever happens, the connection is
// closed or in the hands of its goroutines when it returns.
func (c *conn) greet() {
	c.sock.readBy(time.Now().Add(c.s.opts.HelloTimeout))
	if !c.isOpen() {
		c.sock.interrupt() // again: it was before the line above
	}
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
	if c.rechecking { // what was allowed during the hello may not be any more
		enter(c, &c.subs, c.recheck, call)
	}
	c.mu.Unlock()
	c.sentAt = c.s.clock()
	c.s.wg.Go(c.readLoop)
	c.s.wg.Add(1) // until the worker lets go of it
	c.worker.start(c)
}

// dismiss closes a connection that gets no welcome.
func (c *conn) dismiss(err error) {
	c.mu.Lock()
	bye := c.bye
	c.mu.Unlock()
	if bye == nil {
		bye, _ = errors.AsType[*closing](err)
	}
	if bye == nil && errors.Is(err, os.ErrDeadlineExceeded) {
		c.s.counters.silent.Add(1)
		bye = &closing{wire.CloseNoSignOfLife, "resume: not received within " + c.s.opts.HelloTimeout.String(), deniedSilent}
	}
	if bye == nil {
		c.s.deny(deniedGone)
		c.end()
		_ = c.ws.CloseNow() // releases what the library holds
		return
	}
	c.s.deny(bye.denial)
	if bye.denial == deniedBadHello || bye.denial == deniedOtherUser {
		c.s.counters.malformed.Add(1)
		c.s.log.Debug("longwire: no welcome", "code", bye.code, "reason", bye.reason)
	}
	c.sayGoodbye(bye)
}

// welcome answers the resume. Fencing comes last: nothing that can fail does so
// after the older connection has lost its session.
func (c *conn) welcome(r wire.Resume) error {
	arrived := time.Now()
	if r.User != "" && r.User != c.identity.User {
		return &closing{wire.CloseForbidden, "resume: user: not the authenticated one", deniedOtherUser}
	}
	ctx, cancel := c.s.storeContext()
	defer cancel()
	known, err := c.s.knows(ctx, r.Session, c.identity.User)
	if err != nil {
		return c.s.storeAway(err)
	}
	if !c.s.gate.pass(known, c.stop) {
		return &closing{wire.CloseTryLater, c.s.admission.later().reason(), deniedWelcomes}
	}
	c.base = r.V == 0
	c.batch = r.Batch && !c.base

	subs := make(map[string]wire.Answer, len(r.Subs))
	var follows []*follow
	var unpositioned []*topic
	names := slices.AppendSeq(make([]string, 0, len(r.Subs)), maps.Keys(r.Subs))
	slices.Sort(names)
	for i, name := range names {
		if i >= c.s.opts.Follows {
			subs[name] = wire.Answer{Error: wire.ErrLimit}
			continue
		}
		f, refused := c.follow(name, r.Subs[name])
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
	own := &follow{conn: c, topic: &topic{feed: c.session.Own(), state: &c.s.topics.ownState}}
	resumed := c.session.ID() == r.Session
	if c.base && r.Own.Has && resumed {
		// The session id stands for the epoch.
		r.Own.Epoch = own.topic.log().Epoch()
	}
	if err := c.s.sync(own.topic, r.Own); err != nil {
		return c.s.storeAway(err)
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
	answer := c.ask(own, r.Own, learnedOwn)
	c.answerLocked(c.welcomeFrame(answer, subs))
	c.s.counters.welcomed(c.outcome(r, resumed, answer, subs), resumed, r.Away, arrived)
	return nil
}

var errGone = errors.New("server: connection is gone")

// fence takes the session over from its older connection, or reports that this is
// not the newest one.
func (c *conn) fence(r wire.Resume) error {
	if !c.isOpen() {
		return errGone // closed while the application was asked
	}
	if !c.s.users.enter(c.identity.User, r.Session) {
		return &closing{wire.CloseTooMany, c.s.admission.later().reason(), deniedUser}
	}
	ctx, cancel := c.s.storeContext()
	defer cancel()
	sess, err := c.s.store.Attach(ctx, Attachment{
		Session: r.Session, User: c.identity.User, Gen: r.Gen, Fenced: c.fenced,
	})
	u := c.s.users.entered(c, sess)
	if other, ok := errors.AsType[*NotNewestError](err); ok {
		return &closing{wire.CloseNotNewest, wire.GenReason(other.Gen), deniedNotNewest}
	}
	if err != nil {
		return c.s.storeAway(err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended { // end did not know of it
		c.s.users.leave(c, sess)
		sess.Detach()
		return errGone
	}
	c.session, c.user = sess, u
	return nil
}

// fenced is called when a newer connection has taken the session over.
func (c *conn) fenced(gen uint64) {
	c.s.counters.superseded.Add(1)
	c.close(&closing{code: wire.CloseNotNewest, reason: wire.GenReason(gen), denial: deniedNotNewest})
}

func (c *conn) welcomeFrame(own wire.Answer, subs map[string]wire.Answer) wire.Frame {
	o := &c.s.opts
	w := wire.Welcome{
		V:         wire.Version,
		Session:   c.session.ID(),
		Own:       own,
		Heartbeat: o.Heartbeat.Milliseconds(),
		MaxFrame:  wire.MaxClientFrame,
		Window:    int64(o.Window),
		Spread:    o.Spread.Milliseconds(),
		DedupeID:  c.session.DedupeID(),
		DedupeMs:  o.DedupeWindow.Milliseconds(),
		Subs:      subs,
	}
	if !c.base {
		w.Gen, w.User = c.session.Gen(), c.identity.User
	}
	return w
}
