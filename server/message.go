package server

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"time"

	"github.com/longwire/longwire/wire"
)

// hold keeps the order of messages: after one was refused for now, those behind it
// are refused the same way until it returns.
type hold struct {
	id    string
	retry time.Duration
	since time.Duration
}

// holdLife is when a held message will not return any more: clients give a message
// up after at most that long.
const holdLife = 5 * time.Minute

// isDue reports whether the held message has returned, and no earlier than it was
// asked to.
func (h hold) isDue(id string, now time.Duration) bool {
	return h.id == id && now-h.since >= h.retry.Truncate(time.Millisecond) // as it was told
}

// handle answers one message. It runs in the msgs lane, so one after the other.
func (c *conn) handle(m wire.Msg) {
	defer c.s.handled(1)
	c.mu.Lock()
	c.msgBytes = max(c.msgBytes-len(m.Body), 0)
	ended := c.ended
	c.mu.Unlock()
	if ended && c.s.ctx.Err() != nil {
		return // the next server is sent it again
	}
	if h := c.hold; h.id != "" && h.id != m.ID && c.s.clock()-h.since < holdLife {
		c.reply(m.ID, refuse(wire.NackBusy, "after message "+h.id, h.retry))
		c.strike()
		return
	}
	if c.hold.isDue(m.ID, c.s.clock()) {
		c.strikes = 0 // it did as it was asked to
	}
	c.hold = hold{}
	a, limited := c.limit()
	if !limited {
		c.strikes = 0
		var superseded bool
		if a, superseded = c.settle(m); superseded {
			return // the newer connection is sent it again
		}
	}
	if a.Refusal != nil && a.Refusal.Retry > 0 {
		c.hold = hold{id: m.ID, retry: a.Refusal.Retry, since: c.s.clock()}
	}
	c.reply(m.ID, a)
	if limited {
		c.s.counters.limited.Add(1)
		c.strike()
	}
}

// handled notes that n messages are not waited for any more.
func (s *Server) handled(n int) {
	if s.handling.Add(int64(-n)) == 0 {
		poke(s.left)
	}
}

// limit refuses a message for now when its user sends too many.
func (c *conn) limit() (a Answer, limited bool) {
	limiter := c.user.limiter
	if limiter.Allow() {
		return Answer{}, false
	}
	// Until then there is room for all that may be in flight, or for a burst.
	n := float64(min(c.s.opts.Window, limiter.Burst()))
	retry := time.Duration(n / float64(limiter.Limit()) * float64(time.Second))
	return Answer{Refusal: &Refusal{
		Code: wire.NackBusy, Reason: "too many messages", Retry: min(max(retry, minLimitRetry), maxLimitRetry),
	}}, true
}

const (
	minLimitRetry = 100 * time.Millisecond
	maxLimitRetry = 30 * time.Second
)

// strike counts a message that came although the client was asked to wait, or more
// than it may send. What was in flight may come; who goes on is closed.
func (c *conn) strike() {
	c.strikes++
	if c.strikes > 2*c.s.opts.Window {
		c.close(&closing{code: wire.CloseTooMany, reason: c.s.admission.later().reason()})
	}
}

// settle finds the answer: the store has it, or the message is run. superseded says
// that the session has a newer connection, and the message was not looked at.
func (c *conn) settle(m wire.Msg) (a Answer, superseded bool) {
	sum := sha256.Sum256(m.Body)
	found, err := c.session.Admit(c.s.ctx, m.ID, [16]byte(sum[:16]))
	switch {
	case c.s.ctx.Err() != nil && err != nil:
		return refuse(wire.NackUnknown, "the server is closing", 0), false
	case err != nil:
		c.s.log.Error("longwire: a message is refused for now: the store does not answer", "error", err)
		return refuse(wire.NackBusy, "the store does not answer", appRetry), false
	}
	switch found.Kind {
	case Admitted:
		return c.session.Settle(m.ID, c.run(m)), false
	case Answered:
		c.s.counters.duplicates.Add(1)
		return found.Answer, false
	case Conflict:
		return refuse(wire.NackConflict, "the id was used with another body", 0), false
	case Full:
		return refuse(wire.NackBusy, "too many messages to remember", found.Wait), false
	case Superseded:
		return Answer{}, true
	}
	panic("unreachable")
}

func refuse(code, reason string, retry time.Duration) Answer {
	return Answer{Refusal: &Refusal{Code: code, Reason: reason, Retry: retry}}
}

// run calls OnMessage and turns what it returns into an answer that can be sent.
func (c *conn) run(m wire.Msg) Answer {
	if c.s.opts.OnMessage == nil {
		return refuse(wire.NackFailed, "this server takes no messages", 0)
	}
	c.s.counters.messages.Add(1)
	defer observe(c.s.counters.messageTime, time.Now())
	var result json.RawMessage
	err := c.s.guard("OnMessage", func() (err error) {
		result, err = c.s.opts.OnMessage(c.s.ctx, Message{
			Identity: c.identity, Session: c.session.ID(), ID: m.ID, Body: json.RawMessage(m.Body),
		})
		return err
	})
	if err == nil {
		if len(result) == 0 {
			return Answer{}
		}
		if err = checkPayload(result); err != nil {
			c.s.log.Error("longwire: OnMessage: result is left out of the ack", "error", err)
			return Answer{}
		}
		return Answer{Result: append(json.RawMessage(nil), result...)}
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return Answer{Refusal: presentable(refusal)}
	}
	if errors.Is(err, errPanicked) || c.s.ctx.Err() != nil || errors.Is(err, ErrSealed) {
		return refuse(wire.NackUnknown, "the handler did not finish", 0)
	}
	c.s.log.Error("longwire: OnMessage failed", "error", err)
	return refuse(wire.NackFailed, "the handler failed", 0)
}

// presentable returns the application's refusal with defaults and within what a
// frame may say.
func presentable(r *Refusal) *Refusal {
	p := &Refusal{Code: clip(r.Code, maxCodeText), Reason: clip(r.Reason, maxReasonText), Retry: r.Retry}
	switch {
	case r.Retry < 0:
		p.Retry = 0
	case 0 < r.Retry && r.Retry < time.Millisecond:
		p.Retry = time.Millisecond
	}
	if p.Code == "" {
		p.Code = wire.NackFailed
		if p.Retry > 0 {
			p.Code = wire.NackBusy
		}
	}
	return p
}

func (c *conn) reply(id string, a Answer) {
	if a.Refusal == nil {
		c.answer(wire.Ack{ID: id, Result: wire.Raw(a.Result)})
		return
	}
	c.s.counters.refused.Add(1)
	c.answer(wire.Nack{
		ID: id, Code: a.Refusal.Code, Reason: a.Refusal.Reason,
		HasRetry: a.Refusal.Retry > 0, Retry: a.Refusal.Retry.Milliseconds(),
	})
}
