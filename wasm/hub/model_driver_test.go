package hub_test

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
	"github.com/longwire/longwire/wire"
)

// driver is the model of what wasm/ is to a hub.
type driver struct {
	w      *world
	h      *hub.Hub
	id     string
	page   *page
	offset time.Duration // of this page's clock
	inbox  []string
	conns  map[uint64]*conn
	closes []reconnect.Closed
	kept   []string // frames whose payloads it keeps
}

func (d *driver) now() time.Time { return d.w.now.Add(d.offset) }

// detach leaves a page without its hub.
func (d *driver) detach() {
	if d.page.driver == d {
		d.page.driver = nil
		d.page.outbox = nil
		d.page.forgetHub()
		if d.page.alive {
			d.page.here(true)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(d.conns)) {
		d.conns[id].close(wire.CloseAbnormal, "")
	}
	d.w.zombies = slices.DeleteFunc(d.w.zombies, func(z *driver) bool { return z == d })
}

// do does the actions of the hub.
func (d *driver) do(actions []hub.Action) {
	for len(actions) > 0 {
		a, n := actions[0], 1
		switch a.Kind {
		case hub.Tell:
			text := d.whole(a.Text)
			d.w.note("%s to its own tab: %s", d.id, text)
			f, err := wire.DecodeFromHub([]byte(text))
			if err != nil {
				d.w.fail("the own tab got %s: %v", text, err)
				return
			}
			if f, ok := f.(wire.Problem); ok && !strings.HasPrefix(f.Text, "no second connection") {
				d.w.fail("a problem: %s", f.Text)
			}
			if d.page.driver == d {
				d.page.take(f)
			}
		case hub.Post:
			var texts []string
			for _, next := range actions {
				if next.Kind != hub.Post || next.Room != a.Room || !bytes.Equal(next.Head, a.Head) {
					break
				}
				texts = append(texts, d.whole(next.Text))
			}
			text := texts[0]
			if n = len(texts); n > 1 {
				text = "[" + strings.Join(texts, ",") + "]"
			}
			d.w.broadcast(d.page, fmt.Appendf(nil, "%s%s}", a.Head, text))
		case hub.Ask:
			defer func() { d.do(d.h.Holds(d.now(), d.w.holder == d)) }()
		case hub.Do:
			d.act(a.Do)
		}
		actions = actions[n:]
	}
	if d.h.Gone() {
		d.detach()
	}
}

// received is a message as the hub gets it: of events it keeps the payloads every other
// time.
func (d *driver) received(conn uint64, text string) reconnect.Received {
	ev := reconnect.Received{Conn: conn, Data: []byte(text), Size: len(text)}
	frames, err := wire.Decode(ev.Data)
	if err != nil || len(frames) != 1 || d.w.r.IntN(2) == 0 {
		return ev
	}
	switch f := frames[0].(type) {
	case wire.Event:
		ev.Frame = wire.Events{Stream: f.Stream, From: f.Seq, Data: make([]wire.Raw, 1)}
	case wire.Events:
		ev.Frame = wire.Events{Stream: f.Stream, From: f.From, Data: make([]wire.Raw, len(f.Data))}
	default:
		return ev
	}
	ev.Data = strconv.AppendInt(nil, int64(len(d.kept)), 10)
	d.kept = append(d.kept, text)
	return ev
}

// whole is what a text of the hub stands for.
func (d *driver) whole(text []byte) string {
	if n, ok := wire.Raw(text).Uint(); ok {
		return d.kept[n]
	}
	return string(text)
}

func (d *driver) act(a reconnect.Action) {
	switch a := a.(type) {
	case reconnect.Dial:
		c := &conn{s: d.w.server, id: a.Conn, driver: d, cursors: make(map[string]*cursor)}
		d.conns[a.Conn] = c
		d.w.conns = append(d.w.conns, c)
	case reconnect.Write:
		d.w.note("%s writes %s", d.id, a.Data)
		if c := d.conns[a.Conn]; c != nil {
			c.in = append(c.in, string(a.Data))
		}
	case reconnect.Abandon:
		if c := d.conns[a.Conn]; c != nil {
			delete(d.conns, a.Conn)
			c.close(a.Code, a.Reason)
		}
	}
}

// cut tells the hub, later, that a connection is gone.
func (d *driver) cut(c *conn, code int, reason string) {
	d.w.conns = slices.DeleteFunc(d.w.conns, func(other *conn) bool { return other == c })
	if d.conns[c.id] == c {
		delete(d.conns, c.id)
		d.closes = append(d.closes, reconnect.Closed{Conn: c.id, Code: code, Reason: reason})
	}
}

func (d *driver) event(ev reconnect.Event) { d.do(d.h.Event(d.now(), ev)) }

// moves are what may happen next at a hub.
func (d *driver) moves(m []func()) []func() {
	if len(d.inbox) > 0 {
		m = append(m, func() {
			text := d.inbox[0]
			d.inbox = d.inbox[1:]
			d.do(d.h.FromChannel(d.now(), []byte(text)))
		})
	}
	if len(d.closes) > 0 {
		m = append(m, func() {
			ev := d.closes[0]
			d.closes = d.closes[1:]
			d.event(ev)
		})
	}
	for _, id := range slices.Sorted(maps.Keys(d.conns)) {
		c := d.conns[id]
		if !c.opened {
			m = append(m, func() {
				c.opened = true
				d.event(reconnect.Opened{Conn: c.id})
			})
		} else if len(c.out) > 0 {
			m = append(m, func() {
				text := c.out[0]
				c.out = c.out[1:]
				d.w.note("%s reads %s", d.id, text)
				d.event(d.received(c.id, text))
			})
		}
	}
	return m
}
