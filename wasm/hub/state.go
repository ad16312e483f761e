package hub

import (
	"bytes"
	"strconv"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// state says where the hub stands.
func (h *Hub) state(s reconnect.Status) wire.HubState {
	f := wire.HubState{
		State: s.State.String(), Cause: s.Cause, Reason: s.Reason, Hint: s.Hint, Asleep: h.asleep,
		Attempt: int64(s.Attempt), Since: epochMs(s.Since), NextRetry: epochMs(s.NextRetry), NotBefore: epochMs(s.Floor),
		Session: s.Session, User: s.User, Interrupted: s.Interrupted, Stale: s.Stale.Milliseconds(), RTT: s.RTT.Microseconds(), Tabs: int64(len(h.tabs)), Room: h.room, Totals: totals(h.m.Totals()),
	}
	if s.State == reconnect.Live {
		f.HasHeard, f.Heard = true, reconnect.Elapsed(h.heardAt, h.now).Milliseconds()
	}
	if s.LastClose != nil {
		f.HasClose, f.Code, f.Closed = true, int64(s.LastClose.Code), s.LastClose.Reason
	}
	return f
}

// tellState gives the own tab a state.
func (h *Hub) tellState(f wire.HubState) {
	if h.id != "" {
		f.Gen, f.Hub = h.gen, h.id
	}
	h.tellFrame(f)
}

// report tells the tabs where the connection stands. The others are spared what
// only counts.
func (h *Hub) report(s reconnect.Status) {
	h.live = h.live && s.State == reconnect.Live
	if s.State != reconnect.Connecting && s.State != reconnect.Live {
		h.need = need{} // nobody wants it any more
	}
	if h.gone {
		return
	}
	f := h.state(s)
	h.tellState(f)
	if !h.shared() || h.first == 0 {
		return
	}
	brief := f
	brief.Totals, brief.HasHeard = nil, false
	text := h.write(brief)
	if !bytes.Equal(text, h.posted) {
		h.posted = append(h.posted[:0], text...)
		h.postText(h.write(f))
	}
}

// totals writes the totals as a JSON object.
func totals(t reconnect.Totals) wire.Raw {
	b := []byte{'{'}
	for _, f := range []struct {
		name  string
		value uint64
	}{
		{"attempts", t.Attempts},
		{"sessions", t.Sessions},
		{"bridges", t.Bridges},
		{"probes", t.Probes},
		{"unwanted", t.Unwanted},
		{"bad", t.Bad},
		{"sent", t.Sent},
		{"bytesIn", t.BytesIn},
		{"bytesOut", t.BytesOut},
	} {
		b = append(b, '"')
		b = append(b, f.name...)
		b = append(b, '"', ':')
		b = strconv.AppendUint(b, f.value, 10)
		b = append(b, ',')
	}
	b = append(b, `"recovery":[`...)
	for i, n := range t.Recovery.Counts {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendUint(b, n, 10)
	}
	return append(b, ']', '}')
}

func epochMs(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}
