package redisstore

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/longwire/longwire/server"
	"github.com/longwire/longwire/wire"
)

const (
	// mostAnswers bounds the answers that are remembered for one user, in bytes.
	mostAnswers = 1 << 20
	// A message that runs already is looked at again after these times.
	leastLook = 50 * time.Millisecond
	mostLook  = time.Second
	// What the client of a full memory is told to wait.
	leastRoom = time.Second
	mostRoom  = 30 * time.Second
)

// running is a message that this node runs.
type running struct {
	c      *session
	key    string // in store.running
	id     string
	sum    [16]byte
	owner  string        // the node, "." and what tells it from a run before
	done   chan struct{} // closed when answer is set
	answer server.Answer
}

// stored is an answer as it is kept.
type stored struct {
	Result json.RawMessage `json:"r,omitempty"`
	Code   string          `json:"c,omitempty"`
	Reason string          `json:"m,omitempty"`
}

var abandoned = encodeAnswer(server.Answer{Refusal: &server.Refusal{
	Code: wire.NackUnknown, Reason: "the node that ran it is gone",
}})

func encodeAnswer(a server.Answer) string {
	v := stored{Result: a.Result}
	if a.Refusal != nil {
		v = stored{Code: a.Refusal.Code, Reason: a.Refusal.Reason}
	}
	text, err := json.Marshal(v)
	if err != nil { // a result that is no JSON
		text = []byte("{}")
	}
	return string(text)
}

func decodeAnswer(text string) (a server.Answer, err error) {
	var v stored
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return server.Answer{}, fmt.Errorf("redisstore: a stored answer: %w", err)
	}
	a.Result = v.Result
	if v.Code != "" {
		a.Refusal = &server.Refusal{Code: v.Code, Reason: v.Reason}
	}
	return a, nil
}

// Admit implements server.Session.
func (c *session) Admit(ctx context.Context, id string, sum [16]byte) (server.Finding, error) {
	records, _ := c.p.recordKeys(c.user, c.id)
	r := &running{c: c, key: records + " " + id, id: id, sum: sum, owner: c.s.node + "." + newTag(), done: make(chan struct{})}
	for look := leastLook; ; look = min(2*look, mostLook) {
		finding, runs, err := r.admit(ctx)
		if err != nil || !runs {
			return finding, err
		}
		ours := c.s.runs(r.key)
		var done chan struct{}
		if ours != nil {
			done = ours.done
		}
		timer := time.NewTimer(look)
		select {
		case <-done:
			timer.Stop()
			if ours.sum == sum {
				return server.Finding{Kind: server.Answered, Answer: ours.answer}, nil
			}
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return server.Finding{}, fmt.Errorf("redisstore: message %q is running elsewhere: %w", id, context.Cause(ctx))
		case <-c.s.ctx.Done():
			timer.Stop()
			return server.Finding{}, errClosed
		}
	}
}

// admit asks once. runs says that the message runs already.
func (r *running) admit(ctx context.Context) (f server.Finding, runs bool, err error) {
	c := r.c
	ctx, cancel := c.s.bounded(ctx)
	defer cancel()
	records, order := c.p.recordKeys(c.user, c.id)
	reply, err := c.s.call(ctx, c.p, scriptAdmit, []string{c.p.genKey(), c.p.sessionKey(c.id), records, order},
		plain(c.gen, r.id, string(r.sum[:]), r.owner, c.s.so.DedupeWindow.Milliseconds(), c.s.so.DedupeLimit,
			mostAnswers, abandoned, c.p.prefix))
	if err != nil {
		if away, ok := err.(*awayError); ok && away.lost { //nolint:errorlint // as call returns it
			c.s.settleLater(r, "") //nolint:contextcheck // it may be noted as running, which it is not
		}
		return server.Finding{}, false, err
	}
	list, _ := reply.([]any)
	text := func(i int) string {
		if i >= len(list) {
			return ""
		}
		s, _ := list[i].(string)
		return s
	}
	switch text(0) {
	case "admitted":
		c.s.mu.Lock()
		c.s.running[r.key] = r
		c.s.mu.Unlock()
		return server.Finding{Kind: server.Admitted}, false, nil
	case "answered":
		a, err := decodeAnswer(text(1))
		return server.Finding{Kind: server.Answered, Answer: a}, false, err
	case "conflict":
		return server.Finding{Kind: server.Conflict}, false, nil
	case "superseded":
		return server.Finding{Kind: server.Superseded}, false, nil
	case "full":
		ms, _ := strconv.ParseInt(text(1), 10, 64)
		return server.Finding{Kind: server.Full, Wait: min(max(time.Duration(ms)*time.Millisecond, leastRoom), mostRoom)}, false, nil
	case "running":
		return server.Finding{}, true, nil
	}
	return server.Finding{}, false, fmt.Errorf("redisstore: the script admit returned %v", reply)
}

// runs returns the message that this node runs under a key, or nil.
func (s *store) runs(key string) *running {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.running[key]
}

// Settle implements server.Session.
func (c *session) Settle(id string, a server.Answer) server.Answer {
	records, _ := c.p.recordKeys(c.user, c.id)
	r := c.s.runs(records + " " + id)
	if r == nil {
		return a
	}
	text := ""
	if a.Refusal == nil || a.Refusal.Retry == 0 {
		text = encodeAnswer(a)
	}
	ctx, cancel := c.s.bounded(c.s.ctx)
	defer cancel()
	counts, err := r.settle(ctx, text)
	r.answer = a
	switch {
	case isAway(err):
		if c.s.settleLater(r, text) {
			return a
		}
	case err != nil:
		c.s.log.Error("longwire: the answer to a message cannot be noted", "error", err)
	case counts != "":
		if r.answer, err = decodeAnswer(counts); err != nil {
			c.s.log.Error("longwire: the answer to a message cannot be read", "error", err)
			r.answer = a
		}
	}
	r.end()
	return r.answer
}

// end tells who waits on this node.
func (r *running) end() {
	r.c.s.mu.Lock()
	if r.c.s.running[r.key] == r {
		delete(r.c.s.running, r.key)
	}
	r.c.s.mu.Unlock()
	close(r.done)
}

// settle notes an answer, "" for none. It returns the one that counts if that is
// another one.
func (r *running) settle(ctx context.Context, text string) (counts string, err error) {
	c := r.c
	records, order := c.p.recordKeys(c.user, c.id)
	reply, err := c.s.call(ctx, c.p, scriptSettle, []string{c.p.genKey(), records, order},
		plain(r.id, string(r.sum[:]), r.owner, c.s.so.DedupeWindow.Milliseconds(), text))
	if err != nil {
		return "", err
	}
	counts, _ = reply.(string)
	if counts == text {
		return "", nil
	}
	return counts, nil
}

// settleLater goes on with what Redis has not answered. Until then the record says
// that the message runs, and others wait for it.
func (s *store) settleLater(r *running, text string) bool {
	return s.spawn(func() {
		ctx, cancel := context.WithTimeout(s.ctx, s.so.DedupeWindow)
		defer cancel()
		if _, err := r.settle(ctx, text); err != nil {
			s.log.Error("longwire: the answer to a message is lost", "error", err)
		}
		r.end()
	})
}
