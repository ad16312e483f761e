package reconnect

import (
	"strconv"
	"time"
)

// probing asks over HTTP what a failed WebSocket handshake does not tell.
type probing struct {
	n        uint64 // number of the last probe
	out      bool
	limit    deadline
	last     time.Time
	failures int // attempts in a row that ended without a welcome
	next     int // the count of failures that probes next
	refusals int // 403, 404, 410 or a redirect in a row
}

func (p *probing) reset() {
	p.drop()
	p.failures, p.next, p.refusals = 0, probeFirst, 0
}

func (p *probing) drop() {
	p.out = false
	p.limit.clear()
}

// maybeProbe probes at failures 3, 6, 12, … in a row, never twice a minute. The
// next attempt waits for the outcome.
func (m *Machine) maybeProbe() {
	p := &m.probe
	if !m.p.Probe || p.out || p.failures < p.next {
		return
	}
	if p.n > 0 && Elapsed(p.last, m.now) < probeEvery {
		return // at the first failure after the minute
	}
	for p.next <= p.failures {
		p.next *= 2
	}
	p.n++
	p.last = m.now
	p.out = true
	// The driver ends a probe after ProbeTimeout; this is for one that does not.
	p.limit.set(m.now, m.p.ProbeTimeout+time.Second)
	m.account.totals.Probes++
	m.do(Probe{p.n})
}

func (m *Machine) probeTimeout() {
	if m.probe.limit.due(m.now) {
		m.probeDone(ProbeDone{N: m.probe.n, Err: "no answer within " + m.p.ProbeTimeout.String()})
	}
}

// probeDone judges the outcome of a probe.
func (m *Machine) probeDone(ev ProbeDone) {
	if !m.probe.out || ev.N != m.probe.n {
		return
	}
	m.probe.drop()
	if m.state != Waiting {
		return
	}
	m.changed = true
	refused := ""
	switch {
	case ev.Redirected:
		refused = CauseUnauthorized
		m.hint = "the probe is redirected, perhaps to a login"
	case ev.Status == 0:
		m.hint = "the server is unreachable over HTTP too: " + ev.Err
	case ev.Status == 204 && ev.Marker:
		m.hint = "network and login are fine: is WebSocket blocked on the way?"
	case ev.Status/100 == 2:
		m.hint = "something else answers in place of the server: perhaps a captive portal"
	case ev.Status == 401:
		m.end(CauseUnauthorized, "the probe was answered with 401")
		return
	case ev.Status == 403:
		refused = CauseForbidden
	case ev.Status == 404:
		refused = CauseNotFound
	case ev.Status == 410:
		refused = CauseGone
	case ev.Status == 429 || ev.Status == 503:
		m.hint = "the server asks to try later over HTTP (" + strconv.Itoa(ev.Status) + ")"
		m.waitAtLeast(ev.RetryAfter)
	default:
		m.hint = "the server answers over HTTP with " + strconv.Itoa(ev.Status)
	}
	if refused == "" {
		m.probe.refusals = 0
		return
	}
	if !ev.Redirected {
		m.hint = "the server answers over HTTP with " + strconv.Itoa(ev.Status)
	}
	// One such answer may be a deploy under way. Probes are a minute apart.
	m.probe.refusals++
	if m.probe.refusals >= probeRefusals {
		m.end(refused, m.hint)
	}
}
