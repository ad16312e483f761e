package hub

import (
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// doubt is while the hub does not know whether it still holds the lock. Until it
// does, nothing is handled and nothing is said.
type doubt struct {
	on      bool
	settled bool // what raised it is being handled now
	limit   deadline
	held    []func()
}

// AskLimit is how long the answer to Ask may take. Without one the hub goes on.
const AskLimit = 2 * time.Second

// ask asks whether the lock is still held; then is done if it is.
func (h *Hub) ask(then func()) {
	h.doubt.on = true
	h.doubt.limit.set(h.now, AskLimit)
	h.doubt.held = append([]func(){func() {
		h.doubt.settled = true
		then()
		h.doubt.settled = false
	}}, h.doubt.held...)
	h.out = append(h.out, Action{Kind: Ask})
}

// Doubts reports whether inputs are held back until it is clear who holds the lock.
func (h *Hub) Doubts() bool { return h.doubt.on }

// hold keeps an input for when the doubt is settled.
func (d *doubt) hold(input func()) { d.held = append(d.held, input) }

// Holds answers Ask. A hub that does not hold the lock falls silent for good.
func (h *Hub) Holds(now time.Time, yes bool) []Action {
	if h.begin(now) && h.doubt.on {
		h.settleDoubt(yes)
	}
	return h.end()
}

func (h *Hub) settleDoubt(yes bool) {
	h.doubt.on = false
	h.doubt.limit.clear()
	if !yes {
		h.resign()
		h.tellFrame(wire.Yield{})
		return
	}
	for len(h.doubt.held) > 0 && !h.doubt.on && !h.gone {
		next := h.doubt.held[0]
		h.doubt.held = h.doubt.held[1:]
		next()
	}
}

// heard takes note of a number of another hub, and of that one's id if it is known.
// A higher rank raises this hub above it, if it still is the hub; heard reports
// whether that was so.
func (h *Hub) heard(number uint64, id string) bool {
	if !h.started {
		if number > 0 && number >= h.m.Gen() {
			h.tell(reconnect.Outrank{Above: number})
		}
		return false
	}
	higher := number > h.gen || (wire.Envelope{Gen: number, Hub: id}).Outranks(h.gen, h.id)
	if higher && h.without&ruleRaise == 0 {
		h.outrank(number)
		return true
	}
	return false
}

// outrank raises the hub above that number, if it holds the lock.
func (h *Hub) outrank(above uint64) {
	h.ask(func() {
		if above < h.gen {
			return // meanwhile it is
		}
		h.tell(reconnect.Outrank{Above: above})
		h.reannounce()
	})
}

// reannounce announces a number that is not for a new attempt.
func (h *Hub) reannounce() {
	h.announce()
	if h.m.State() == reconnect.Connecting && !h.resumed {
		h.answering.set(h.now, answerWait)
		h.answered()
	}
}

// handOver gives the connection up and says so.
func (h *Hub) handOver() {
	h.resign()
	if h.shared() && h.first > 0 {
		h.postText(h.write(wire.Yield{}))
	}
}

// resign gives the connection up in silence.
func (h *Hub) resign() {
	h.gone = true
	for _, a := range h.m.Handle(h.now, reconnect.Sleep{}) {
		if abandon, ok := a.(reconnect.Abandon); ok {
			h.do(abandon)
		}
	}
}
