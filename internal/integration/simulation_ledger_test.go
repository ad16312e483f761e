package integration_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/longwire/longwire/reconnect"
)

// ledger is what was published and sent, and judges what comes of it. It keeps the
// first thing found wrong, as nothing may fail a test inside the bubble.
type ledger struct {
	p plan

	mu      sync.Mutex
	begun   time.Time
	verdict error
	lines   []string // what happened, for whoever reads a failure
	life    int      // of the server: counts its restarts

	logs      map[string]*published
	numbering map[string]numbering // by epoch
	sends     []*sent
	held      bool // a message may have been withdrawn that was refused for now
	effects   map[string]int
	order     map[int][]int // of the effects of each client
}

// published is all that was ever published on a stream. Its entries are counted
// over every numbering: the nth is named n, from 1 on.
type published struct {
	entries []entry
	life    int    // when the last of them was published
	seq     uint64 // and its number
}

type entry struct {
	at   time.Time
	life int
	seq  uint64 // as Publish returned it; 0 for a session's own stream
}

// numbering ties an epoch to the entries: the event seq is the entry seq + shift.
type numbering struct {
	key   string
	shift int
	life  int
}

func newLedger(p plan) *ledger {
	return &ledger{
		p: p, begun: time.Now(), logs: make(map[string]*published), numbering: make(map[string]numbering),
		effects: make(map[string]int), order: make(map[int][]int),
	}
}

func (l *ledger) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.noteLocked(format, args...)
}

func (l *ledger) noteLocked(format string, args ...any) {
	l.lines = append(l.lines, fmt.Sprintf("%10v  ", time.Since(l.begun))+fmt.Sprintf(format, args...))
}

func (l *ledger) fail(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.failLocked(format, args...)
}

func (l *ledger) failLocked(format string, args ...any) {
	if l.verdict == nil {
		l.noteLocked("WRONG: "+format, args...)
		l.verdict = fmt.Errorf(format, args...)
	}
}

func (l *ledger) failed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.verdict != nil
}

// err returns the verdict with the end of what happened.
func (l *ledger) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.verdict == nil {
		return nil
	}
	lines := l.lines
	for i, line := range lines {
		if strings.Contains(line, "WRONG: ") {
			lines = lines[:i+1]
			break
		}
	}
	const shown = 150
	return fmt.Errorf("%w\nwhat happened:\n%s", l.verdict, strings.Join(lines[max(len(lines)-shown, 0):], "\n"))
}

func (l *ledger) log(key string) *published {
	if l.logs[key] == nil {
		l.logs[key] = &published{}
	}
	return l.logs[key]
}

// payload of an event: which stream it belongs to, and which entry it is.
func payload(key string, entry int) []byte {
	return fmt.Appendf(nil, "%q", fmt.Sprintf("%s %d", key, entry))
}

func parsePayload(data []byte) (key string, n int) {
	_, _ = fmt.Sscanf(strings.Trim(string(data), `"`), "%s %d", &key, &n)
	return key, n
}

// publish publishes one event with fn, which returns its number, and false if it
// went nowhere. No event can be judged before it is in the ledger.
func (l *ledger) publish(key string, fn func(data []byte) (uint64, bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(key)
	n := len(log.entries) + 1
	seq, ok := fn(payload(key, n))
	if !ok {
		return
	}
	log.entries = append(log.entries, entry{at: time.Now(), life: l.life, seq: seq})
	log.life, log.seq = l.life, seq
	l.noteLocked("published %s %d as %d", key, n, seq)
}

// state is what the application's state of a stream is: that of so many entries, of
// which the last has that number in the numbering that the server has now.
func (l *ledger) state(key string) (n int, seq uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	log := l.log(key)
	if log.life == l.life {
		seq = log.seq
	}
	return len(log.entries), seq
}

// bind ties the epoch to the entries, or finds that it was tied otherwise.
func (l *ledger) bind(epoch, key string, seq uint64, n int) {
	got := numbering{key: key, shift: n - int(seq), life: l.log(key).entries[n-1].life}
	if want, ok := l.numbering[epoch]; !ok {
		l.numbering[epoch] = got
	} else if got != want {
		l.failLocked("entry %d of %s is number %d of %s: %+v, but before %+v", n, key, seq, epoch, got, want)
	}
}

// covered reports whether the server can still replay everything after the
// position, as far as the ledger can tell.
func (l *ledger) covered(key, epoch string, pos uint64) bool {
	num, ok := l.numbering[epoch]
	if !ok || num.life != l.life || strings.HasPrefix(key, "own/") {
		return false
	}
	entries := l.log(key).entries
	at := num.shift + int(pos)
	// A stream nobody uses may be forgotten, and so is what is too old.
	if at < 1 || at > len(entries) || time.Since(entries[at-1].at) > 4*time.Minute {
		return false
	}
	return len(entries)-at <= l.p.Log
}

// sent is one message.
type sent struct {
	client, n int
	body      string
	answers   int
	outcome   reconnect.Outcome
}

// answered takes what Send returned.
func (l *ledger) answered(s *sent, result []byte, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.answers++
	s.outcome = reconnect.Accepted
	if sendErr, ok := errors.AsType[*reconnect.SendError](err); ok {
		s.outcome = sendErr.Outcome
	} else if err != nil {
		l.failLocked("Send of %s: %v", s.body, err)
	}
	l.held = l.held || s.outcome == reconnect.Unknown
	l.noteLocked("answer to %s: %v %s %v", s.body, s.outcome, result, err)
	switch n := l.effects[s.body]; {
	case s.outcome == reconnect.Accepted && n != 1:
		l.failLocked("%s is accepted after %d effects", s.body, n)
	case s.outcome == reconnect.Accepted && string(result) != s.body:
		l.failLocked("%s is accepted with the result %s", s.body, result)
	}
}

func (l *ledger) isHeld() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

func (l *ledger) effect(s message) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.effects[s.body]++
	l.order[s.Client] = append(l.order[s.Client], s.N)
	l.noteLocked("effect of %s", s.body)
	if n := l.effects[s.body]; n > 1 {
		l.failLocked("%s took effect %d times", s.body, n)
	}
}

// settled judges all messages, once none can have an effect any more.
func (l *ledger) settled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	accepted := make(map[int]map[int]bool)
	for _, s := range l.sends {
		n := l.effects[s.body]
		switch {
		case s.answers != 1:
			l.failLocked("Send of %s returned %d times", s.body, s.answers)
		case s.outcome == reconnect.Accepted && n != 1,
			s.outcome == reconnect.Unknown && n > 1,
			(s.outcome == reconnect.NotSent || s.outcome == reconnect.Refused) && n != 0:
			l.failLocked("%s is %v and took effect %d times", s.body, s.outcome, n)
		case s.outcome == reconnect.Accepted:
			if accepted[s.client] == nil {
				accepted[s.client] = make(map[int]bool)
			}
			accepted[s.client][s.n] = true
		}
	}
	for client, order := range l.order {
		last := -1
		for _, n := range order {
			if !accepted[client][n] {
				continue
			}
			if n < last {
				l.failLocked("message %d of client %d took effect after message %d", n, client, last)
			}
			last = n
		}
	}
}
