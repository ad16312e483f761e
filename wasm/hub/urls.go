package hub

import (
	"cmp"
	"slices"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// urlWait is how long a tab has to come up with a URL before another one is asked.
const urlWait = 5 * time.Second

// need is a URL that is wanted for an attempt.
type need struct {
	attempt uint64
	asked   []*tab
	failed  []*tab
	err     string   // what the last one to fail said
	limit   deadline // of the one asked last
}

// wantURL asks one tab for a URL.
func (h *Hub) wantURL(attempt uint64) {
	h.need = need{attempt: attempt}
	h.askNext()
}

// askNext asks the next tab: one that is visible, and rather the own one. The
// callback of one that was asked before may answer all the same.
func (h *Hub) askNext() {
	n := &h.need
	var next *tab
	for _, t := range h.tabs {
		if !slices.Contains(n.asked, t) && (next == nil || t.visible && !next.visible) {
			next = t
		}
	}
	if next == nil {
		return // the machine's own limit is left
	}
	n.asked = append(n.asked, next)
	n.limit.set(h.now, urlWait)
	h.send(next, wire.Need{N: n.attempt, What: "url"})
}

// have takes the answer of a tab.
func (h *Hub) have(t *tab, f wire.Have) {
	n := &h.need
	if f.N != n.attempt || !slices.Contains(n.asked, t) {
		return
	}
	if f.URL != "" && f.Error == "" {
		h.need = need{}
		h.tell(reconnect.URLReady{Attempt: f.N, URL: f.URL})
		return
	}
	n.err = f.Error
	h.urlFailed(t)
}

// urlGone is urlFailed for a tab that has left.
func (h *Hub) urlGone(t *tab) {
	if h.need.attempt > 0 && slices.Contains(h.need.asked, t) {
		h.urlFailed(t)
	}
}

// urlFailed asks the next tab, or gives up when every tab has failed.
func (h *Hub) urlFailed(t *tab) {
	n := &h.need
	if !slices.Contains(n.failed, t) {
		n.failed = append(n.failed, t)
	}
	if n.asked[len(n.asked)-1] == t {
		n.limit.clear()
		h.askNext()
	}
	for _, other := range h.tabs {
		if !slices.Contains(n.failed, other) {
			return
		}
	}
	attempt, why := n.attempt, cmp.Or(n.err, "no tab has a URL")
	h.need = need{}
	h.tell(reconnect.URLFailed{Attempt: attempt, Err: why})
}
