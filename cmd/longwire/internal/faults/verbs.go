package faults

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/longwire/longwire/wire"
)

// Bounds of what one request may ask for.
const (
	maxPublish = 100_000
	maxData    = 32 << 20 // bytes; more than a client takes, on purpose
	maxDown    = time.Minute
	maxRefuse  = 1_000_000
)

// A verb is one thing that can be done under /faults/.
type verb struct {
	name   string
	method string
	params string // as a person would write them
	does   string
	do     func(h *handler, r *http.Request, p *params) (any, error)
}

var verbs = []verb{
	{"publish", http.MethodPost, "stream, data | count [from=1] | the body", "publishes one event, or count events {\"n\":from}, {\"n\":from+1} and so on; answers the first and last sequence number", (*handler).publish},
	{"publish-to", http.MethodPost, "user, data", "publishes one event to each session of a user; answers how many there were", (*handler).publishTo},
	{"drop", http.MethodPost, "[how=fin|rst]", "closes every WebSocket's TCP connection without a close frame", (*handler).drop},
	{"close", http.MethodPost, "code [reason] [user]", "sends a close frame on the WebSockets of a user, or all, as if the server had closed them", (*handler).closeWith},
	{"mute", http.MethodPost, "dir=in|out|both|off [which=all|open]", "swallows what clients send (in) or what the server sends (out), whole messages, while the sockets stay open; which=open spares connections made later", (*handler).mute},
	{"refuse", http.MethodPost, "status | status=off [header=Name:value]... [times] [what=upgrades|probes|both]", "answers upgrades with an HTTP status before the server sees them, so many times or until off", (*handler).refuse},
	{"login", http.MethodPost, "mode=refuse|accept", "makes the server answer 401 to upgrades and probes", (*handler).login},
	{"hold-close", http.MethodPost, "state=on|off", "swallows the close frames of the server and keeps the sockets open when it closes them", (*handler).holdClose},
	{"stall", http.MethodPost, "state=on|off", "stops reading from the WebSockets", (*handler).stall},
	{"hang", http.MethodPost, "state=on|off", "accepts TCP connections and never answers an upgrade; off drops those that wait", (*handler).hang},
	{"restart", http.MethodPost, "[down=0s]", "ends everything as a crash does, and starts a fresh server on the same address after that time; answers when it is down; faults stay in force", (*handler).restart},
	{"forget", http.MethodPost, "", "restarts at once: all sessions and logs are gone, every stream gets a new epoch; not with a store that nodes share", (*handler).forget},
	{"reset", http.MethodPost, "", "lifts every fault and sets the counters to zero", (*handler).reset},
	{"report", http.MethodGet, "", "counts connections, upgrades, probes, messages and their effects, and the close codes of clients", (*handler).report},
}

// badParam makes an error that the params did not find themselves.
func badParam(name string, err error) error {
	return badRequestError{fmt.Errorf("parameter %s: %w", name, err)}
}

type badRequestError struct{ error }

func (e badRequestError) Unwrap() error { return e.error }

type answer map[string]any

func (h *handler) publish(r *http.Request, p *params) (any, error) {
	stream := p.required("stream")
	data, one := p.text("data")
	_, many := p.text("count")
	count, from := p.number("count", 1, 1, maxPublish), p.number("from", 1, 0, wire.MaxSeq)
	switch {
	case !wire.ValidStream(stream):
		p.fail("stream", "%q is not the name of a stream", stream)
	case one && many:
		p.fail("count", "not together with data")
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	target, err := h.target()
	if err != nil {
		return nil, err
	}
	payload := []byte(data)
	if !one && !many {
		if payload, err = io.ReadAll(http.MaxBytesReader(nil, r.Body, maxData)); err != nil {
			return nil, badRequestError{fmt.Errorf("body: %w", err)}
		}
		if len(payload) == 0 {
			return nil, badParam("data", errors.New("missing, and so are count and a body"))
		}
	}
	if !many && !json.Valid(payload) {
		return nil, badParam("data", errors.New("not JSON"))
	}
	var first, last uint64
	for i := range count {
		if many {
			payload = fmt.Appendf(nil, `{"n":%d}`, from+i)
		}
		if last, err = target.Publish(r.Context(), stream, payload); err != nil {
			return nil, err
		}
		if i == 0 {
			first = last
		}
	}
	return answer{"stream": stream, "first": first, "last": last}, nil
}

func (h *handler) publishTo(r *http.Request, p *params) (any, error) {
	user, data := p.required("user"), p.required("data")
	if !json.Valid([]byte(data)) {
		p.fail("data", "not JSON")
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	target, err := h.target()
	if err != nil {
		return nil, err
	}
	sessions, err := target.PublishTo(r.Context(), user, []byte(data))
	return answer{"user": user, "sessions": sessions}, err
}

func (h *handler) drop(_ *http.Request, p *params) (any, error) {
	how := p.oneOf("how", "fin", "fin", "rst")
	if err := p.end(); err != nil {
		return nil, err
	}
	return answer{"connections": h.control.drop(how == "rst")}, nil
}

func (h *handler) closeWith(_ *http.Request, p *params) (any, error) {
	p.required("code")
	code := p.number("code", 0, 1000, 4999)
	reason, _ := p.text("reason")
	user, _ := p.text("user")
	switch {
	case code == 1004 || code == wire.CloseNoStatus || code == wire.CloseAbnormal || code > 1014 && code < 3000:
		p.fail("code", "%d must not be in a close frame (RFC 6455 section 7.4)", code)
	case wire.ClipReason(reason) != reason:
		p.fail("reason", "longer than %d bytes, or not UTF-8", wire.MaxReason)
	}
	if err := p.end(); err != nil {
		return nil, err
	}
	return answer{"code": code, "connections": h.control.closeWith(user, code, reason)}, nil
}

func (h *handler) mute(_ *http.Request, p *params) (any, error) {
	dir := p.oneOf("dir", "", "in", "out", "both", "off")
	which := p.oneOf("which", "all", "all", "open")
	if err := p.end(); err != nil {
		return nil, err
	}
	h.control.mute(true, dir == "in" || dir == "both", which == "all")
	h.control.mute(false, dir == "out" || dir == "both", which == "all")
	return answer{"dir": dir, "which": which}, nil
}

func (h *handler) refuse(_ *http.Request, p *params) (any, error) {
	f := refusal{header: http.Header{}}
	if status := p.required("status"); status != "off" {
		f.status = p.number("status", 0, 200, 599)
	}
	for _, line := range p.list("header") {
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(line, "\r\n\x00") {
			p.fail("header", "%q is not Name:value", line)
		}
		f.header.Add(name, strings.TrimSpace(value))
	}
	f.left = p.number("times", -1, 1, maxRefuse)
	what := p.oneOf("what", "upgrades", "upgrades", "probes", "both")
	f.upgrades, f.probes = what != "probes", what != "upgrades"
	if err := p.end(); err != nil {
		return nil, err
	}
	h.control.setRefusal(f)
	return answer{"status": f.status, "what": what}, nil
}

func (h *handler) login(_ *http.Request, p *params) (any, error) {
	mode := p.oneOf("mode", "", "refuse", "accept")
	if err := p.end(); err != nil {
		return nil, err
	}
	h.control.refuseLogins(mode == "refuse")
	return answer{"mode": mode}, nil
}

// onOff runs set with the parameter of the verbs that know nothing else.
func onOff(p *params, set func(on bool)) (any, error) {
	state := p.oneOf("state", "", "on", "off")
	if err := p.end(); err != nil {
		return nil, err
	}
	set(state == "on")
	return answer{"state": state}, nil
}

func (h *handler) holdClose(_ *http.Request, p *params) (any, error) {
	return onOff(p, h.control.setHold)
}

func (h *handler) stall(_ *http.Request, p *params) (any, error) {
	return onOff(p, func(on bool) { h.control.toggle(&h.control.stall, on) })
}

func (h *handler) hang(_ *http.Request, p *params) (any, error) {
	return onOff(p, func(on bool) { h.control.toggle(&h.control.hang, on) })
}

func (h *handler) restart(r *http.Request, p *params) (any, error) {
	down := p.duration("down", 0, maxDown)
	if err := p.end(); err != nil {
		return nil, err
	}
	return h.restartAfter(r.Context(), down)
}

func (h *handler) forget(r *http.Request, p *params) (any, error) {
	if err := p.end(); err != nil {
		return nil, err
	}
	if !h.host.Forgets() {
		return nil, errors.New("the store remembers, and is not this server's alone; restart ends the server only")
	}
	return h.restartAfter(r.Context(), 0)
}

func (h *handler) restartAfter(ctx context.Context, down time.Duration) (any, error) {
	err := h.host.Restart(down, func() { h.control.killOthers(ctx) })
	return answer{"down": down.String()}, err
}

func (h *handler) reset(_ *http.Request, p *params) (any, error) {
	if err := p.end(); err != nil {
		return nil, err
	}
	h.control.Reset()
	return answer{"reset": true}, nil
}

func (h *handler) report(r *http.Request, p *params) (any, error) {
	report := h.control.Report()
	if addr, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr); ok {
		report.Node = addr.String()
	}
	return report, p.end()
}
