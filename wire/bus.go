package wire

import "unicode/utf8"

// Envelope is what goes over the channel between tabs: a frame, or from a hub an array
// of frames, and who says it.
// Gen and Hub rank the hubs: a tab heeds the highest (Gen, Hub) it has heard, ids
// compared byte by byte, and drops the rest.
type Envelope struct {
	Gen uint64 // of a hub: its own; of a tab: the highest it heeds, 0 for none
	Hub string // id of the hub that says it, "" when a tab does
	Tab string // id of the tab that says it, "" when a hub does
	To  string // id of the one tab, or of the hub, it is for; "" for all
	// Frame is the text of the frame or frames. DecodeEnvelope knows of it that it is an
	// object, or, beside Hub, perhaps an array.
	Frame Raw
}

// AppendHead appends the envelope up to its frame: what Append writes is the head,
// the frame, and "}".
func (e Envelope) AppendHead(dst []byte) []byte {
	o := object(append(dst, '{'))
	o.uint("g", e.Gen)
	o.optText("h", e.Hub)
	o.optText("i", e.Tab)
	o.optText("to", e.To)
	o.name("f")
	return o
}

// Append appends the envelope as one JSON object to dst and returns the extended
// buffer.
func (e Envelope) Append(dst []byte) []byte {
	return append(append(e.AppendHead(dst), e.Frame...), '}')
}

// Outranks reports whether e's hub is above the hub with that number and id.
func (e Envelope) Outranks(gen uint64, hub string) bool {
	return e.Hub != "" && (e.Gen > gen || e.Gen == gen && e.Hub > hub)
}

// DecodeEnvelope reads what was posted to a channel, or says in an *[Error] what is
// wrong with it. The frame aliases text; DecodeFromTab and DecodeFromHub read it.
func DecodeEnvelope(text []byte) (Envelope, error) {
	if !utf8.Valid(text) {
		return Envelope{}, &Error{Problem: "message is not valid UTF-8"}
	}
	p := parsed{t: "envelope"}
	i := space(text, 0)
	if i >= len(text) || text[i] != '{' {
		return Envelope{}, &Error{Frame: p.t, Value: shown(text), Problem: "is not a JSON object"}
	}
	end := eachMember(text, i, func(key []byte, start int) int {
		end := scanValue(text, start)
		switch string(key) {
		case "g", "h", "i", "to", "f":
			if end >= 0 {
				p.set(field{key: key, value: text[start:end:end]})
			}
		}
		return end
	})
	if end < 0 || space(text, end) != len(text) {
		return Envelope{}, &Error{Frame: p.t, Value: shown(text), Problem: "is not valid JSON"}
	}
	e := Envelope{Gen: uint64(p.int("g")), Hub: p.text("h", MaxID), Tab: p.text("i", MaxID), To: p.text("to", MaxID), Frame: p.raw("f")}
	switch {
	case p.err != nil:
	case e.Hub == "" && e.Tab == "":
		p.fail("h", nil, "missing, and so is i")
	case e.Hub != "" && e.Tab != "":
		p.fail("i", p.raw("i"), "beside h")
	case e.Hub != "" && e.Gen == 0:
		p.fail("g", p.raw("g"), "must be above 0 beside h")
	case e.Frame == nil:
		p.fail("f", nil, "missing")
	case e.Frame[0] != '{' && (e.Hub == "" || e.Frame[0] != '['):
		p.fail("f", e.Frame, "must be an object")
	}
	if p.err != nil {
		return Envelope{}, p.err
	}
	return e, nil
}

// Frames that go between hub and tabs only, beside those of the wire. A server
// neither sends nor knows them: Decode reads them as Unknown.
const (
	tHub         = "hub"
	tHere        = "here"
	tNeed        = "need"
	tHave        = "have"
	tKick        = "kick"
	tStart       = "start"
	tStop        = "stop"
	tReauthorize = "reauthorize"
	tCancel      = "cancel"
	tProblem     = "problem"
	tTake        = "take"
	tYield       = "yield"
	tBye         = "bye"
)

// Bye says that a tab, or a hub, goes: a hint, which may never arrive.
type Bye struct{}

func (Bye) Type() string             { return tBye }
func (Bye) Append(dst []byte) []byte { return open(dst, tBye).close() }

// decodeOne reads a text that holds one frame.
func decodeOne(text []byte, build func(*parsed, []byte) Frame) (Frame, error) {
	frames, err := decode(text, build)
	if err != nil {
		return nil, err
	}
	if len(frames) != 1 {
		return nil, &Error{Value: shown(text), Problem: "one frame is wanted"}
	}
	return frames[0], nil
}
