package reconnect_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wire"
)

// FuzzMachine drives a machine with whatever the bytes say: events in any order,
// a hostile server, a clock that jumps. Whatever comes, the machine keeps to what
// a driver and an application may rely on.
func FuzzMachine(f *testing.F) {
	const (
		forward = "\x15\x15\x15\x15" // from idle to a session
		follow  = "\x08\x00\x00"
		event   = "\x04\x00\x01\x01\x00"
		overlap = "\x04\x00\x02\x00\x00\x00"
		hole    = "\x04\x00\x01\x03\x00"
		send    = "\x06\x00\x00\x00"
		ack     = "\x04\x00\x07\x00"
		later   = "\x04\x00\x08\x00\x00\x02"
		reset   = "\x04\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00" // a snapshot is to come
		followB = "\x08\x02\x00"                                 // it is told to resync
		eventB  = "\x04\x00\x01\x00\x01\x02"
		drain   = "\x04\x00\x0b\x00"
		cut     = "\x05\x00\x00\x00"
		sleep   = "\x0e\x00"
		wake    = "\x0e\x01"
		stall   = "\x11\x00"
		tick    = "\x00"
	)
	for _, script := range []string{
		follow + forward + event + event + overlap + hole + event,
		follow + forward + event + cut + forward + forward + event + overlap,
		follow + forward + event + reset + event + cut + forward + forward + event,
		followB + forward + eventB + cut + forward + forward + eventB,
		send + forward + ack + send + later + tick + ack,
		send + forward + cut + forward + forward + ack,
		follow + forward + drain + tick + forward + event + cut,
		forward + sleep + wake + forward + send + stall + tick + tick + tick + ack,
	} {
		for _, policy := range []string{"\x00", "\x01", "\x02", "\x83"} {
			f.Add([]byte(policy + script))
		}
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) > 2000 {
			return
		}
		d := newFuzzDriver(t, in)
		for len(d.in) > 0 {
			d.step()
		}
		d.finish()
	})
}

type fuzzDriver struct {
	t   *testing.T
	in  []byte
	m   *reconnect.Machine
	p   reconnect.Policy
	now time.Time

	asleep  bool
	attempt uint64 // of the last FetchURL
	url     string // as last answered
	dials   uint64
	probes  uint64
	sockets map[uint64]*fuzzSocket
	dead    []uint64

	sent    map[string]*fuzzMessage // those not settled
	settled map[string]bool         // ids, until they are used again
	streams map[string]*wire.Want   // where the application stands
}

type fuzzSocket struct{ opened, resumed, welcomed, bridged bool }

type fuzzMessage struct {
	copies  int  // that were written
	refused bool // for now, the only copy: it may count as never written
}

func newFuzzDriver(t *testing.T, in []byte) *fuzzDriver {
	t.Helper()
	d := &fuzzDriver{
		t: t, in: in, now: time.UnixMilli(1_000_000), sockets: make(map[uint64]*fuzzSocket),
		sent: make(map[string]*fuzzMessage), settled: make(map[string]bool), streams: make(map[string]*wire.Want),
	}
	b := d.byte()
	d.p = reconnect.Policy{
		Probe: b&1 != 0, Relay: b&2 != 0, MaxPending: 4, MaxPendingBytes: 100,
		Rand: func() float64 { return float64(b) / 256 },
	}
	m, err := reconnect.NewMachine(d.p)
	if err != nil {
		t.Fatal(err)
	}
	d.m = m
	return d
}

// byte takes the next byte, 0 at the end.
func (d *fuzzDriver) byte() byte {
	if len(d.in) == 0 {
		return 0
	}
	b := d.in[0]
	d.in = d.in[1:]
	return b
}

// among picks by the next byte.
func among[T any](d *fuzzDriver, from ...T) T { return from[int(d.byte())%len(from)] }

func (d *fuzzDriver) number() uint64 {
	return among[uint64](d, 0, 1, 2, 3, 5, 10, 100, 15_000, 1<<31, wire.MaxSeq-1, wire.MaxSeq, wire.MaxSeq+1, 1<<63)
}

func (d *fuzzDriver) stream() string { return among(d, "a", "", "b", "elsewhere") }

func (d *fuzzDriver) id() string {
	return among(d, "m1", "m2", "m3", "m4", "m5", "m6", "", strings.Repeat("x", 65))
}

// socket picks one that lives if there is any, or now and then one that does not.
func (d *fuzzDriver) socket() uint64 {
	b := int(d.byte())
	if b >= 224 && len(d.dead) > 0 {
		return d.dead[b%len(d.dead)]
	}
	if b >= 216 {
		return uint64(b)
	}
	live := d.live()
	if len(live) == 0 {
		return 0
	}
	return live[len(live)-1-b%len(live)]
}

// live returns the sockets that were dialled and are not gone, oldest first.
func (d *fuzzDriver) live() []uint64 {
	var ids []uint64
	for id := range d.sockets {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

//nolint:cyclop // one case for each event
func (d *fuzzDriver) step() {
	switch d.byte() % 24 {
	case 0:
		d.tick()
	case 1:
		d.handle(among[reconnect.Event](d, reconnect.Start{}, reconnect.Start{}, reconnect.DialNow{}, reconnect.Reauthorize{}, reconnect.Stop{}))
	case 2:
		d.url = among(d, "ws://x", "ws://y")
		d.handle(reconnect.URLReady{Attempt: d.attempt - uint64(among(d, 0, 0, 0, 1)), URL: d.url})
	case 3:
		id := d.socket()
		if s := d.sockets[id]; s != nil {
			s.opened = true
		}
		d.about(id, reconnect.Opened{Conn: id})
	case 4:
		d.receive(d.socket(), d.frame(), false)
	case 5:
		id := d.socket()
		code := among(d, 1006, 1000, 1005, 1009, 1012, 1013, 4401, 4409, 4429, 1008, 4400, 1011, 0, -1, 99999)
		reason := among(d, "", "retry=100-200", "retry=0-86400000", "gen=5", "gen=9007199254740991", strings.Repeat("r", 500))
		d.about(id, reconnect.Closed{Conn: id, Code: code, Reason: reason})
	case 6:
		d.send(reconnect.Send{ID: d.id(), Body: among(d, wire.Raw("1"), wire.Raw(`"`+strings.Repeat("b", 60)+`"`), nil), Expiry: among(d, 0, time.Second, time.Hour, -1)})
	case 7:
		d.handle(among[reconnect.Event](d, reconnect.Cancel{ID: d.id()}, reconnect.Clear{}))
	case 8, 9:
		d.subscribe(d.stream(), among(d, wire.Want{}, wire.Want{Has: true, After: 3, Epoch: "e"}, wire.Want{Has: true, After: wire.MaxSeq, Epoch: "e"}))
	case 10:
		name := d.stream()
		delete(d.streams, name)
		d.handle(reconnect.Unsubscribe{Stream: name})
	case 11:
		d.pass(among(d, time.Millisecond, time.Second, 4*time.Second, 20*time.Second, time.Minute, 10*time.Minute, 72*time.Hour))
	case 12:
		d.pass(-among(d, time.Millisecond, time.Second, time.Minute, 24*time.Hour))
	case 13:
		d.handle(reconnect.Signal{Kind: among(d, reconnect.Visible, reconnect.Online, reconnect.Offline, reconnect.Hidden, reconnect.Wanted, 77)})
	case 14:
		d.handle(among[reconnect.Event](d, reconnect.Sleep{}, reconnect.Wake{}))
	case 15:
		d.handle(reconnect.URLFailed{Attempt: d.attempt, Err: "no"})
	case 16:
		d.handle(reconnect.ProbeDone{
			N: d.probes - uint64(among(d, 0, 0, 1)), Status: among(d, 0, 204, 200, 401, 403, 404, 410, 429, 503, 302, 500),
			Marker: d.byte()&1 == 0, Redirected: d.byte()&7 == 7, RetryAfter: among(d, 0, time.Second, time.Hour, -time.Hour),
		})
	case 17:
		d.handle(reconnect.Stalled{On: d.byte()&1 == 0})
	case 18:
		d.handle(among[reconnect.Event](d, reconnect.Wrote{Conn: d.socket()}, reconnect.Outrank{Above: d.number()}, reconnect.Inherit{
			Session: among(d, "", "s3"), User: among(d, "", "ada"), Attempt: int(d.byte()), NotBefore: d.now.Add(among(d, 0, time.Second, -time.Hour, 1000*time.Hour)), Live: d.byte()&1 == 0,
		}))
	case 19:
		d.receive(d.socket(), d.raw(), d.byte() > 250)
	case 20:
		// Several frames in one message.
		d.receive(d.socket(), "["+d.frame()+","+d.frame()+","+d.frame()+"]", false)
	default: // the way forward, so that there is a session most of the time
		d.forward()
	}
}

// forward does what a driver and a server of good will would do next.
func (d *fuzzDriver) forward() {
	live := d.live()
	switch s := d.m.Status(); {
	case s.State == reconnect.Idle || s.State == reconnect.Ended:
		d.handle(reconnect.Start{})
	case s.State == reconnect.Waiting:
		d.tick()
	case len(live) == 0:
		d.url = "ws://z"
		d.handle(reconnect.URLReady{Attempt: d.attempt, URL: d.url})
	case !d.sockets[live[len(live)-1]].opened:
		d.sockets[live[len(live)-1]].opened = true
		d.handle(reconnect.Opened{Conn: live[len(live)-1]})
	case !d.sockets[live[len(live)-1]].welcomed:
		d.receive(live[len(live)-1], `{"t":"welcome","v":1,"session":"s","gen":1,"user":"ada","seq":3,"epoch":"e","first":0,"heartbeat":15000,`+
			`"dedupe":{"id":"d","ms":600000},"subs":{"a":{"seq":5,"epoch":"e","first":0,"resync":false},"b":{"seq":9,"epoch":"e","first":0,"resync":true}}}`, false)
	default:
		d.tick()
	}
}

// raw is a message as the bytes have it.
func (d *fuzzDriver) raw() string {
	n := min(int(d.byte()), len(d.in))
	text := string(d.in[:n])
	d.in = d.in[n:]
	return text
}

// frame builds a frame, of which any part may be wrong.
func (d *fuzzDriver) frame() string {
	switch d.byte() % 16 {
	case 0:
		return fmt.Sprintf(`{"t":"welcome","v":%d,"session":%q,"gen":%d,"user":%q,%s,"heartbeat":%d,"spread":%d,"window":%d,"maxFrame":%d,"dedupe":{"id":%q,"ms":%d},"subs":{"a":{%s},"b":{%s}}}`,
			among(d, 1, 1, 0, 2), among(d, "s", "s2", ""), d.number(), among(d, "ada", "ada", "ada", "bob"), d.answer(), among(d, 15_000, d.number()), d.number(),
			among(d, 32, 1, d.number()), among(d, 65_536, d.number()), among(d, "d", "d2"), among(d, 600_000, d.number()), d.answer(), d.answer())
	case 1:
		return fmt.Sprintf(`{"t":"event","seq":%d,"stream":%q,"data":1}`, d.next(), d.stream())
	case 2:
		return fmt.Sprintf(`{"t":"events","from":%d,"stream":%q,"data":[%s]}`, d.next(), d.stream(), among(d, "1,2,3", "1", ""))
	case 3:
		return fmt.Sprintf(`{"t":"snapshot","seq":%d,"epoch":%q,"stream":%q,"state":{}}`, d.number(), among(d, "e", "f"), d.stream())
	case 4:
		return fmt.Sprintf(`{"t":"snapshot","stream":%q,"state":{}}`, d.stream())
	case 5:
		return fmt.Sprintf(`{"t":"reset","stream":%q,%s,"snapshot":%t,"reason":"r"}`, d.stream(), d.answer(), d.byte()&1 == 0)
	case 6:
		return fmt.Sprintf(`{"t":"subbed","stream":%q,%s}`, d.stream(), d.answer())
	case 7:
		return fmt.Sprintf(`{"t":"ack","id":%q}`, d.id())
	case 8:
		return fmt.Sprintf(`{"t":"nack","id":%q,"code":%q%s}`, d.id(), among(d, "no", "unknown"), among(d, "", `,"retry":0`, `,"retry":1`, `,"retry":9007199254740991`, `,"retry":-5`))
	case 9:
		return fmt.Sprintf(`{"t":"hb","next":%d,"stream":%q}`, among(d, 0, 300_000, d.number()), d.stream())
	case 10:
		return fmt.Sprintf(`{"t":"pong","n":%d}`, d.number())
	case 11:
		return fmt.Sprintf(`{"t":"drain","within":%d}`, among(d, 0, 4000, d.number()))
	case 12:
		return among(d, `{"t":"resume"}`, `{"t":"msg","id":"m","body":1}`, `{"t":"ping","n":1}`, `{"t":"sub"}`, `{"t":"unsub","stream":"a"}`)
	case 13:
		return among(d, `{"t":"future"}`, `{}`, `[]`, ``, `null`, `{"t":"event"}`, `{"t":"event","seq":1`, `{"t":7}`, "\xff")
	}
	return fmt.Sprintf(`{"t":"event","seq":%d,"stream":"a","data":1}`, d.next())
}

// next is a sequence number: most often one near where stream a stands.
func (d *fuzzDriver) next() uint64 {
	b := d.byte()
	at := d.streams["a"]
	if b < 160 && at != nil {
		return at.After + uint64(b%4)
	}
	return d.number()
}

func (d *fuzzDriver) answer() string {
	if b := d.byte(); b >= 230 {
		return among(d, `"error":"forbidden"`, `"error":"busy","retry":1`, `"error":"busy","retry":0`, `"error":"busy","retry":9007199254740991`, `"error":"limit"`)
	}
	return fmt.Sprintf(`"seq":%d,"epoch":%q,"first":%d,"resync":%t`, d.number(), among(d, "e", "e", "f"), among(d, 0, d.number()), d.byte()&3 == 3)
}
