package main

import (
	"errors"
	"time"

	"github.com/hack-pad/safejs"

	"github.com/longwire/longwire/jsbridge"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
	"github.com/longwire/longwire/wire"
)

// page is the script of the page that a hub is in. It keeps the payloads of events: the
// hub gets what has arrived in one call, and says in one call whom it is for.
type page struct {
	deliver safejs.Value // (frames, upto): a JSON array of frames and of numbers that stand for those it keeps; below upto none is wanted any more
	post    safejs.Value // (channel, head, numbers): posts an envelope of frames that it keeps
	socket  safejs.Value // (url, limit): makes a WebSocket
	flush   safejs.Value // (): hands over what has arrived

	arrived uint64 // the number behind those that have arrived
	kept    uint64 // from which on the page keeps frames

	own    []byte // frames for the own tab, "[" and all but the "]"
	posted hub.Action
	frames []byte // for the channel, of posted, with "," between
	count  int
	stand  bool // numbers stand for them
}

func newPage(v safejs.Value) (p page, err error) {
	for name, fn := range map[string]*safejs.Value{
		"deliver": &p.deliver, "post": &p.post, "socket": &p.socket, "flush": &p.flush,
	} {
		if *fn, err = jsbridge.Get(v, name); err != nil {
			return p, err
		}
		if fn.Type() != safejs.TypeFunction {
			return p, errors.New("page." + name + ": must be a function")
		}
	}
	return p, nil
}

// receive takes what has arrived on a socket.
func (d *driver) receive(conn uint64, data []byte) {
	all, ok := wire.DecodeArrivals(data)
	if !ok {
		all = []wire.Arrival{{Text: data}} // which the hub will not like
	}
	now := time.Now()
	for _, a := range all {
		if a.Frame != nil {
			n, _ := wire.Raw(a.Text).Uint()
			d.page.arrived = n + 1
		}
		d.do(d.h.Event(now, reconnect.Received{Conn: conn, Data: a.Text, Binary: a.Binary, Frame: a.Frame, Size: a.Size}))
	}
}

// tell adds a frame for the own tab.
func (p *page) tell(text []byte) {
	sep := byte(',')
	if len(p.own) == 0 {
		sep = '['
	}
	p.own = append(append(p.own, sep), text...)
}

// send tells the own tab what there is for it. Nothing stands for a frame any more
// unless the hub holds it back.
func (p *page) send(holds bool) {
	upto := p.arrived
	if holds {
		upto = p.kept
	}
	if len(p.own) == 0 && upto == p.kept {
		return
	}
	p.kept = upto
	if len(p.own) == 0 {
		p.own = append(p.own, '[')
	}
	text := string(append(p.own, ']'))
	p.own = p.own[:0] // before the tab is called, which may call in turn
	if _, err := p.deliver.Invoke(text, upto); err != nil {
		println("longwire: the tab failed: " + err.Error())
	}
}

// addPost adds what is to be posted to what is posted with it.
func (d *driver) addPost(a hub.Action) {
	p := &d.page
	stand := a.Text[0] != '{'
	if p.count > 0 && (a.Room != p.posted.Room || stand != p.stand || string(a.Head) != string(p.posted.Head)) {
		d.sendPost()
	}
	if p.count == 0 {
		p.posted.Room, p.posted.Head = a.Room, append(p.posted.Head[:0], a.Head...)
		p.frames, p.stand = p.frames[:0], stand
	} else {
		p.frames = append(p.frames, ',')
	}
	p.frames = append(p.frames, a.Text...)
	p.count++
}

// sendPost posts what there is to be posted.
func (d *driver) sendPost() {
	p := &d.page
	if p.count == 0 {
		return
	}
	channel := d.channelOf(p.posted.Room)
	head, frames := string(p.posted.Head), string(p.frames)
	var err error
	switch {
	case p.stand:
		_, err = p.post.Invoke(channel.Value(), head, frames)
	case p.count > 1:
		err = channel.Post(head + "[" + frames + "]}")
	default:
		err = channel.Post(head + frames + "}")
	}
	p.count = 0
	if err != nil {
		println("longwire: " + err.Error())
	}
}
