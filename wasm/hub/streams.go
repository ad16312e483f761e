package hub

import (
	"maps"
	"slices"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// stream is one that a counted tab wants.
type stream struct {
	wants []*tab
	asks  []*ask

	// What the server last said of it: relayed since the last beat if fresh.
	known bool
	last  wire.Want
	fresh bool
}

// ask is what tabs wait for an answer to. No tab waits for two.
type ask struct {
	from wire.Want // what the server is, or will be, asked for
	sent bool
	by   []asker
}

// asker is a tab that waits, with where it stands: not before from.
type asker struct {
	t  *tab
	at wire.Want
}

// names returns the names of the streams, sorted.
func (h *Hub) names() []string { return slices.Sorted(maps.Keys(h.streams)) }

// place takes all that a tab wants, and where it stands.
func (h *Hub) place(t *tab, s wire.Standing) {
	t.gen, t.session, t.user = s.Gen, s.Session, s.User
	for _, name := range h.names() {
		if _, wants := s.Subs[name]; !wants && (name != "" || s.NotOwn) {
			h.unwant(t, name)
		}
	}
	if !s.NotOwn {
		h.want(t, "", s.Own)
	}
	for _, name := range slices.Sorted(maps.Keys(s.Subs)) {
		h.want(t, name, s.Subs[name])
	}
}

// want asks for a stream for a tab that stands at from. While there is a connection
// the server is asked, once for each position that is asked for at a time: the
// answer, and all that comes behind it, is what the next tab wants too.
func (h *Hub) want(t *tab, name string, from wire.Want) {
	s := h.streams[name]
	if s == nil {
		s = &stream{}
		h.streams[name] = s
	}
	if !slices.Contains(s.wants, t) {
		s.wants = append(s.wants, t)
	}
	s.forget(t)
	i := slices.IndexFunc(s.asks, func(a *ask) bool { return a.from == from })
	if i < 0 {
		i = len(s.asks)
		s.asks = append(s.asks, &ask{from: from})
	}
	s.asks[i].by = append(s.asks[i].by, asker{t, from})
	h.request(name, s.asks[i])
}

// request asks the server for what an ask is about, unless it is asked already.
func (h *Hub) request(name string, a *ask) {
	if !h.live || a.sent {
		return
	}
	a.sent = true
	h.asked[name] = true
	h.tell(reconnect.Subscribe{Stream: name, From: a.from})
}

// forget drops what a tab waits for.
func (s *stream) forget(t *tab) {
	for _, a := range s.asks {
		a.by = slices.DeleteFunc(a.by, func(by asker) bool { return by.t == t })
	}
	// One that is sent is answered, and until then spares the next tab a request.
	s.asks = slices.DeleteFunc(s.asks, func(a *ask) bool { return len(a.by) == 0 && !a.sent })
}

// unwant ends a tab's interest in a stream.
func (h *Hub) unwant(t *tab, name string) {
	s := h.streams[name]
	if s == nil {
		return
	}
	s.forget(t)
	s.wants = slices.DeleteFunc(s.wants, func(other *tab) bool { return other == t })
	if len(s.wants) == 0 {
		delete(h.streams, name)
		h.drop(name)
	}
}

// drop has the machine follow a stream no longer.
func (h *Hub) drop(name string) {
	if h.live && h.asked[name] {
		delete(h.asked, name)
		h.tell(reconnect.Unsubscribe{Stream: name})
	}
}

// deliver hands on what the server says of a stream.
func (h *Hub) deliver(a reconnect.Deliver) {
	switch f := a.Frame.(type) {
	case wire.Event:
		if s := h.streams[f.Stream]; s != nil {
			s.note(f.Seq, s.last.Epoch)
			h.relay(s, f, a.Text)
		}
	case wire.Events:
		if s := h.streams[f.Stream]; s != nil {
			if a.Skip > 0 {
				f.From += uint64(a.Skip)
				f.Data, a.Text = f.Data[a.Skip:], nil
			}
			s.note(f.From+uint64(len(f.Data))-1, s.last.Epoch)
			h.relay(s, f, a.Text)
		}
	case wire.Snapshot:
		if s := h.streams[f.Stream]; s != nil {
			s.know(f.Seq, f.Epoch)
			h.relay(s, f, a.Text)
		}
	case wire.Reset:
		if s := h.streams[f.Stream]; s != nil {
			s.know(f.Seq, f.Epoch)
			h.relay(s, f, a.Text)
		}
	case wire.Subbed:
		if s := h.streams[f.Stream]; s != nil {
			h.subbed(s, f, a.Asked)
		}
	case wire.Welcome:
		h.welcome(f)
	}
}

// note remembers the last number that was relayed.
func (s *stream) note(seq uint64, epoch string) {
	s.last, s.fresh = wire.Want{After: seq, Epoch: epoch}, true
}

// know is note where the numbering is said too.
func (s *stream) know(seq uint64, epoch string) {
	s.note(seq, epoch)
	s.known = true
}

// unknow forgets where the streams stood, for a new connection.
func (h *Hub) unknow() {
	for _, s := range h.streams {
		s.known = false
	}
}

// subbed gives an answer to those who asked from that position, and a refusal to
// everybody: the server no longer follows the stream.
func (h *Hub) subbed(s *stream, f wire.Subbed, asked wire.Want) {
	if f.Answer.Error == wire.ErrBusy {
		return // the machine asks again
	}
	var to []*tab
	s.asks = slices.DeleteFunc(s.asks, func(a *ask) bool {
		if !a.sent || a.from != asked && !h.base && h.without&ruleAsked == 0 {
			return false
		}
		for _, by := range a.by {
			to = append(to, by.t)
		}
		return true
	})
	if f.Answer.Error == "" {
		s.know(f.Answer.Seq, f.Answer.Epoch)
	} else {
		for _, t := range s.wants {
			if !slices.Contains(to, t) && !s.waits(t) {
				to = append(to, t)
			}
		}
	}
	for _, t := range to {
		h.send(t, f)
	}
}

func (s *stream) waits(t *tab) bool {
	return slices.ContainsFunc(s.asks, func(a *ask) bool {
		return slices.ContainsFunc(a.by, func(by asker) bool { return by.t == t })
	})
}

// quiet returns the last number of each stream of which nothing was relayed since
// the last beat: a tab that stands before it has missed something.
func (h *Hub) quiet() map[string]wire.Want {
	quiet := make(map[string]wire.Want)
	for name, s := range h.streams {
		if h.live && s.known && !s.fresh {
			quiet[name] = s.last
		}
		s.fresh = false
	}
	return quiet
}
