package reconnect_test

import (
	"cmp"
	"slices"
	"strconv"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// refuser is a server that refuses messages for now, and then those behind as well
// until the first returns, as docs/PROTOCOL.md asks of servers that keep the order.
type refuser struct {
	held    string
	effects []string
	toUs    []string
	toThem  []string
}

// take handles the frame that came first.
func (v *refuser) take(t *rapid.T) {
	frames, err := wire.Decode([]byte(v.toThem[0]))
	if err != nil {
		t.Fatal(err)
	}
	v.toThem = v.toThem[1:]
	f := frames[0].(wire.Msg)
	switch {
	case v.held != "" && v.held != f.ID || rapid.IntRange(0, 3).Draw(t, "refuses") == 0:
		v.held = cmp.Or(v.held, f.ID)
		v.reply(wire.Nack{ID: f.ID, Code: wire.NackBusy, HasRetry: true, Retry: 320})
	default:
		v.held = ""
		if !slices.Contains(v.effects, f.ID) {
			v.effects = append(v.effects, f.ID)
		}
		v.reply(wire.Ack{ID: f.ID})
	}
}

func (v *refuser) reply(f wire.Frame) { v.toUs = append(v.toUs, string(f.Append(nil))) }

// Messages take effect in the order in which they were sent, and are settled in that
// order, however late a frame is read on either side and whatever is refused for now.
func TestTheOrderOfMessagesSurvivesRefusals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const long = 10 * time.Minute // nothing ends this connection
		s := newScript(t, reconnect.Policy{IdleTimeout: long, AckTimeout: long})
		v := &refuser{}
		conn := s.live(welcome)
		sent, settled := 0, []string{}
		do := func(ev reconnect.Event) {
			for _, a := range slices.Clone(s.m.Handle(s.now, ev)) {
				switch a := a.(type) {
				case reconnect.Write:
					v.toThem = append(v.toThem, string(a.Data))
				case reconnect.Settle:
					settled = append(settled, a.ID)
				}
			}
		}
		rt.Repeat(map[string]func(*rapid.T){
			"send": func(*rapid.T) { do(send(strconv.Itoa(sent))); sent++ },
			"server reads": func(t *rapid.T) {
				for n := rapid.IntRange(1, 4).Draw(t, "n"); n > 0 && len(v.toThem) > 0; n-- {
					v.take(t)
				}
			},
			"client reads": func(t *rapid.T) {
				for n := rapid.IntRange(1, 4).Draw(t, "n"); n > 0 && len(v.toUs) > 0; n-- {
					text := v.toUs[0]
					v.toUs = v.toUs[1:]
					do(reconnect.Received{Conn: conn, Data: []byte(text)})
				}
			},
			"time passes": func(t *rapid.T) {
				s.now = s.now.Add(time.Duration(rapid.IntRange(1, 500).Draw(t, "ms")) * time.Millisecond)
				do(reconnect.Tick{})
			},
			"": func(t *rapid.T) {
				for what, ids := range map[string][]string{"effects": v.effects, "settled": settled} {
					for i, id := range ids {
						if id != strconv.Itoa(i) {
							t.Fatalf("%s %q", what, ids)
						}
					}
				}
			},
		})
	})
}
