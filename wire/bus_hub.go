package wire

import (
	"maps"
	"slices"
	"strconv"
)

// Frames that a hub sends to tabs.
type (
	// HubState announces a hub and says where its connection stands.
	HubState struct {
		// Gen and Hub are the rank, for the hub's own tab, which gets no envelope.
		Gen uint64
		Hub string

		State  string
		Cause  string // why it has ended
		Reason string
		Hint   string
		// Resume asks for a resume frame: a connection is being made, or the hub is
		// new.
		Resume bool
		// Beat asks for a here frame.
		Beat bool
		// Asleep: the hub's page sleeps, and with it the connection.
		Asleep    bool
		Attempt   int64
		Since     int64 // ms since 1970, as all times here
		NextRetry int64 // 0: none planned
		NotBefore int64 // what the server asked to wait for, 0: nothing
		Session   string
		User      string
		// Interrupted: without a session for longer than a page should keep calm.
		Interrupted bool
		Stale       int64 // ms for which the server has not heard from its store
		RTT         int64 // us that the last ping took
		Tabs        int64 // counted, the hub's own included; 0: not said
		// Room is where events, snapshots and resets are posted: a channel of its own,
		// or, 0, that of all else.
		Room     int64
		HasHeard bool  // Heard is set: there is a connection
		Heard    int64 // ms since the last byte of the server
		// Quiet holds the last number and the epoch of streams on which nothing was
		// relayed since the last beat. Has is not used.
		Quiet map[string]Want
		// Totals is an object of numbers, what the client has done so far.
		Totals   Raw
		HasClose bool // Code and Closed are set: how the last connection ended
		Code     int64
		Closed   string
	}

	// Need asks a tab for something: What is "url".
	Need struct {
		N    uint64
		What string
	}
	// Problem tells the application of something that was coped with.
	Problem struct{ Text string }
	// Yield says that the hub hands over: nothing more comes of it.
	Yield struct{}
)

// DecodeFromHub reads one frame that a hub sends: one of those above, Bye, or a
// frame of the wire, of which nack has its outcome. It is otherwise like Decode.
func DecodeFromHub(text []byte) (Frame, error) { return decodeOne(text, (*parsed).fromHub) }

func (e *parsed) fromHub(text []byte) Frame {
	switch e.t {
	case tHub:
		return e.hubState()
	case tNeed:
		return Need{N: e.need("n"), What: e.text("what", MaxID)}
	case tProblem:
		return Problem{Text: e.text("text", maxURL)}
	case tYield:
		return Yield{}
	case tBye:
		return Bye{}
	}
	f := e.frame(text)
	if nack, ok := f.(Nack); ok {
		nack.Outcome = e.text("outcome", MaxID)
		return nack
	}
	return f
}

func (e *parsed) hubState() Frame {
	f := HubState{
		Gen: uint64(e.int("g")), Hub: e.text("h", MaxID),
		State: e.text("state", MaxID), Cause: e.text("cause", MaxID), Reason: e.text("reason", maxNackReason), Hint: e.text("hint", maxNackReason),
		Resume: e.bool("resume"), Beat: e.bool("beat"), Asleep: e.bool("asleep"),
		Attempt: e.int("attempt"), Since: e.int("since"), NextRetry: e.int("nextRetry"), NotBefore: e.int("notBefore"),
		Session: e.text("session", MaxSession), User: e.text("user", MaxUser), Interrupted: e.bool("interrupted"), Stale: e.int("stale"), RTT: e.int("rtt"),
		Tabs: e.int("tabs"), Room: e.int("room"), Quiet: e.quiet(), Totals: e.raw("totals"), Code: e.int("code"), Closed: e.text("closed", maxNackReason),
	}
	heard, ok := e.uint("heard")
	f.HasHeard, f.Heard = ok, int64(heard) //nolint:gosec // uint bounds it by MaxSeq
	_, f.HasClose = e.find("closed")
	return f
}

// quiet reads {"stream": [seq, "epoch"]}.
func (e *parsed) quiet() map[string]Want {
	f, ok := e.find("quiet")
	if !ok {
		return nil
	}
	if f.value[0] != '{' {
		e.fail("quiet", f.value, "must be an object")
		return nil
	}
	quiet := make(map[string]Want)
	eachMember(f.value, 0, func(key []byte, start int) int {
		end := scanValue(f.value, start)
		value := f.value[start:end:end]
		var pair []Raw
		if value[0] == '[' {
			pair, _ = scanArray(value, 0)
		}
		if len(pair) == 2 {
			seq, isSeq := pair[0].Uint()
			epoch, isText := pair[1].Text()
			if isSeq && isText && len(epoch) <= MaxEpoch && (len(key) == 0 || ValidStream(string(key))) {
				quiet[string(key)] = Want{After: seq, Epoch: epoch}
				return end
			}
		}
		e.fail("quiet."+string(key), value, "must be [seq, epoch]")
		return end
	})
	return quiet
}

func (HubState) Type() string { return tHub }

func (f HubState) Append(dst []byte) []byte {
	o := open(dst, tHub)
	if f.Hub != "" {
		o.uint("g", f.Gen)
		o.text("h", f.Hub)
	}
	o.text("state", f.State)
	o.optText("cause", f.Cause)
	o.optText("reason", f.Reason)
	o.optText("hint", f.Hint)
	o.optTrue("resume", f.Resume)
	o.optTrue("beat", f.Beat)
	o.optTrue("asleep", f.Asleep)
	o.optInt("attempt", f.Attempt)
	o.optInt("since", f.Since)
	o.optInt("nextRetry", f.NextRetry)
	o.optInt("notBefore", f.NotBefore)
	o.optText("session", f.Session)
	o.optText("user", f.User)
	o.optTrue("interrupted", f.Interrupted)
	o.optInt("stale", f.Stale)
	o.optInt("rtt", f.RTT)
	o.optInt("tabs", f.Tabs)
	o.optInt("room", f.Room)
	if f.HasHeard {
		o.uint("heard", uint64(max(f.Heard, 0)))
	}
	if len(f.Quiet) > 0 {
		o.quiet(f.Quiet)
	}
	if f.Totals != nil {
		o.raw("totals", f.Totals)
	}
	if f.HasClose {
		o.optInt("code", f.Code)
		o.text("closed", f.Closed)
	}
	return o.close()
}

func (o *object) quiet(quiet map[string]Want) {
	o.name("quiet")
	*o = append(*o, '{')
	for _, stream := range slices.Sorted(maps.Keys(quiet)) {
		o.name(stream)
		*o = strconv.AppendUint(append(*o, '['), quiet[stream].After, 10)
		*o = append(AppendString(append(*o, ','), quiet[stream].Epoch), ']')
	}
	*o = append(*o, '}')
}

func (Need) Type() string { return tNeed }

func (f Need) Append(dst []byte) []byte {
	o := open(dst, tNeed)
	o.uint("n", f.N)
	o.text("what", f.What)
	return o.close()
}

func (Problem) Type() string { return tProblem }

func (f Problem) Append(dst []byte) []byte {
	o := open(dst, tProblem)
	o.text("text", f.Text)
	return o.close()
}

func (Yield) Type() string             { return tYield }
func (Yield) Append(dst []byte) []byte { return open(dst, tYield).close() }
