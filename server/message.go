package server

import (
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
	if ended && (c.s.ctx.Err() != nil || !c.s.sessions.isNewest(c.session, c.gen)) {
		return // the newer connection, or the next server, is sent it again
	}
	if h := c.hold; h.id != "" && h.id != m.ID && c.s.clock()-h.since < holdLife {
		c.reply(m.ID, answer{refusal: &Refusal{Code: wire.NackBusy, Reason: "after message " + h.id, Retry: h.retry}})
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
		a = c.settle(m)
	}
	if a.refusal != nil && a.refusal.Retry > 0 {
		c.hold = hold{id: m.ID, retry: a.refusal.Retry, since: c.s.clock()}
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
func (c *conn) limit() (a answer, limited bool) {
	limiter := c.session.memory.limiter
	if limiter.Allow() {
		return answer{}, false
	}
	// Until then there is room for all that may be in flight, or for a burst.
	n := float64(min(c.s.opts.Window, limiter.Burst()))
	retry := time.Duration(n / float64(limiter.Limit()) * float64(time.Second))
	return answer{refusal: &Refusal{
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

// settle finds the answer: in memory, or by running the message.
func (c *conn) settle(m wire.Msg) answer {
	memory := c.session.memory
	r, finding, wait := memory.admit(m.ID, m.Body)
	switch finding {
	case admitted:
		a := c.run(m)
		memory.settle(r, a)
		return a
	case known:
		c.s.counters.duplicates.Add(1)
		select {
		case <-r.done:
			return r.answer
		case <-c.s.ctx.Done():
			return answer{refusal: &Refusal{Code: wire.NackUnknown, Reason: "the server is closing"}}
		}
	case conflicts:
		return answer{refusal: &Refusal{Code: wire.NackConflict, Reason: "the id was used with another body"}}
	case full:
		return answer{refusal: &Refusal{Code: wire.NackBusy, Reason: "too many messages to remember", Retry: wait}}
	}
	panic("unreachable")
}

// run calls OnMessage and turns what it returns into an answer that can be sent.
func (c *conn) run(m wire.Msg) answer {
	if c.s.opts.OnMessage == nil {
		return answer{refusal: &Refusal{Code: wire.NackFailed, Reason: "this server takes no messages"}}
	}
	c.s.counters.messages.Add(1)
	defer observe(c.s.counters.messageTime, time.Now())
	var result json.RawMessage
	err := c.s.guard("OnMessage", func() (err error) {
		result, err = c.s.opts.OnMessage(c.s.ctx, Message{
			Identity: c.identity, Session: c.session.id, ID: m.ID, Body: json.RawMessage(m.Body),
		})
		return err
	})
	if err == nil {
		if len(result) == 0 {
			return answer{}
		}
		if err = checkPayload(result); err != nil {
			c.s.log.Error("longwire: OnMessage: result is left out of the ack", "error", err)
			return answer{}
		}
		return answer{result: append(json.RawMessage(nil), result...)}
	}
	if refusal, ok := errors.AsType[*Refusal](err); ok {
		return answer{refusal: presentable(refusal)}
	}
	if errors.Is(err, errPanicked) || c.s.ctx.Err() != nil || errors.Is(err, ErrSealed) {
		return answer{refusal: &Refusal{Code: wire.NackUnknown, Reason: "the handler did not finish"}}
	}
	c.s.log.Error("longwire: OnMessage failed", "error", err)
	return answer{refusal: &Refusal{Code: wire.NackFailed, Reason: "the handler failed"}}
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

func (c *conn) reply(id string, a answer) {
	if a.refusal == nil {
		c.answer(wire.Ack{ID: id, Result: wire.Raw(a.result)})
		return
	}
	c.s.counters.refused.Add(1)
	c.answer(wire.Nack{
		ID: id, Code: a.refusal.Code, Reason: a.refusal.Reason,
		HasRetry: a.refusal.Retry > 0, Retry: a.refusal.Retry.Milliseconds(),
	})
}
