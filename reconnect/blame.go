package reconnect

import "strconv"

// Quarantine: a message at the head that connection after connection does not
// survive is the likely cause.
const (
	lossesAlone = 2 // from then on it is sent alone
	lossesMax   = 5 // while alone: it is given up, and the others live
)

// blame looks for the message that a connection was lost over. A 1009 names no
// message: with several in flight they go one at a time from then on, and one
// that costs the connection twice while it is alone is failed, alone.
func (m *Machine) blame(v verdict) {
	switch v.kind {
	case tooBig:
		m.blameSize()
	case retryPlain:
		m.blameHead()
	case waitRange, loginOver, superseded, end:
	}
}

// blameHead counts a loss without a reason of its own against the message at the
// head, if it had just been written.
func (m *Machine) blameHead() {
	if len(m.box.list) == 0 {
		return
	}
	head := m.box.list[0]
	if !head.inFlight || Elapsed(head.writtenAt, m.now) >= m.p.StableAfter {
		return
	}
	head.losses++
	if head.losses < lossesAlone {
		return
	}
	m.box.solo = true
	if head.losses >= lossesMax {
		m.giveBack(head, CodeQuarantine, "the last "+strconv.Itoa(head.losses)+" connections were lost right after it was written")
	}
}

func (m *Machine) blameSize() {
	var alone *message
	for _, msg := range m.box.list {
		if !msg.inFlight {
			continue
		}
		if alone != nil {
			m.box.solo = true
			return
		}
		alone = msg
	}
	if alone == nil {
		return
	}
	m.box.solo = true
	alone.costs++
	if alone.costs >= 2 {
		m.remove(alone)
		m.do(Settle{ID: alone.id, Outcome: Refused, Code: CodeTooBig, Reason: "the server closes the connection over it"})
	}
}
