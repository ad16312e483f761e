package server

import (
	"errors"
	"slices"

	"github.com/coder/websocket"

	"github.com/longwire/longwire/wire"
)

// outcome is what a welcome was to a client.
type outcome int

const (
	nothingMissed outcome = iota
	replayed              // what was missed follows
	bridged               // a stream needs a snapshot, or has a gap that nothing bridges
	fresh                 // no session that is known here, and no position

	outcomes // how many there are
)

// String is the label of the metric.
func (o outcome) String() string {
	return [outcomes]string{"nothing_missed", "replayed", "snapshot", "new"}[o]
}

// outcome judges a resume by its answers. It needs c.mu.
func (c *conn) outcome(r wire.Resume, resumed bool, own wire.Answer, subs map[string]wire.Answer) outcome {
	positioned, resync := r.Own.Has, own.Resync
	for name, a := range subs {
		positioned = positioned || r.Subs[name].Has
		resync = resync || a.Resync
	}
	switch {
	case !resumed && !positioned:
		return fresh
	case resync:
		return bridged
	case slices.ContainsFunc(c.follows, func(f *follow) bool { return f.replay }):
		return replayed
	}
	return nothingMissed
}

// side is who ended a connection.
type side int

const (
	byServer side = iota
	byClient
	lost // nobody said so: the network, or a peer that was given up

	sides // how many there are
)

// String is the label of the metric.
func (s side) String() string { return [sides]string{"server", "client", "lost"}[s] }

// closeCodes are the codes that are counted by themselves. A peer can send any other,
// and must not make a series with it.
var closeCodes = [...]int{
	wire.CloseNormal, wire.CloseGoingAway, wire.CloseProtocol, wire.CloseUnsupported, wire.CloseNoStatus,
	wire.CloseAbnormal, wire.CloseInvalidUTF8, wire.ClosePolicy, wire.CloseTooBig, wire.CloseInternal, wire.CloseRestart,
	wire.CloseTryLater, wire.CloseLeaving, wire.CloseBadRequest, wire.CloseLoginExpired, wire.CloseForbidden,
	wire.CloseNotFound, wire.CloseNoSignOfLife, wire.CloseNotNewest, wire.CloseGone, wire.CloseTooMany,
}

// otherCode is the place of all codes that are not in closeCodes.
const otherCode = len(closeCodes)

// abnormal is the place of the code that stands for no close frame at all.
var abnormal = codePlace(wire.CloseAbnormal)

// ending says who ended a connection, and the place of the code in closeCodes. err is
// why its reader has ended.
func (c *conn) ending(err error) (side, int) {
	c.mu.Lock()
	bye := c.bye
	c.mu.Unlock()
	if bye != nil {
		return byServer, codePlace(bye.code)
	}
	if ce, ok := errors.AsType[websocket.CloseError](err); ok {
		return byClient, codePlace(int(ce.Code))
	}
	return lost, abnormal
}

func codePlace(code int) int {
	if i := slices.Index(closeCodes[:], code); i >= 0 {
		return i
	}
	return otherCode
}
