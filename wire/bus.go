package wire

// Frames that go between a hub and the tabs of its page only, beside those of
// the wire. A server neither sends nor knows them: Decode reads them as Unknown.
type (
	// HubState announces a hub and says where its connection stands.
	HubState struct {
		State  string
		Cause  string // why it has ended
		Reason string
		Hint   string
		// Resume asks the tab for a resume frame: a connection is being made.
		Resume    bool
		Attempt   int64
		Since     int64 // ms since 1970, as all times here
		NextRetry int64 // 0: none planned
		NotBefore int64 // what the server asked to wait for, 0: nothing
		Session   string
		User      string
		// Interrupted: without a session for longer than a page should keep calm.
		Interrupted bool
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
	// Have answers Need: with a URL, or with why there is none.
	Have struct {
		N     uint64
		URL   string
		Error string
	}

	// Kick tells a hub what a tab noticed: Why is "online", "offline",
	// "visible", or "now" for the wish of the application.
	Kick struct{ Why string }
	// Start begins afresh after an end.
	Start struct{}
	// Stop ends for good.
	Stop struct{}
	// Reauthorize says that there is a new login.
	Reauthorize struct{}
	// Cancel withdraws a message.
	Cancel struct{ ID string }

	// Problem tells the application of something that was coped with.
	Problem struct{ Text string }
)

const (
	tHub         = "hub"
	tNeed        = "need"
	tHave        = "have"
	tKick        = "kick"
	tStart       = "start"
	tStop        = "stop"
	tReauthorize = "reauthorize"
	tCancel      = "cancel"
	tProblem     = "problem"
)

// maxURL bounds a URL on the bus: longer ones no server takes.
const maxURL = 32 << 10

// DecodeBus reads one frame of the bus: one of those above that a tab sends, or
// a frame of the wire. It is otherwise like Decode.
func DecodeBus(text []byte) (Frame, error) {
	frames, err := decode(text, (*envelope).busFrame)
	if err != nil {
		return nil, err
	}
	if len(frames) != 1 {
		return nil, &Error{Value: shown(text), Problem: "one frame is wanted"}
	}
	return frames[0], nil
}

func (e *envelope) busFrame(text []byte) Frame {
	switch e.t {
	case tHave:
		return Have{N: e.need("n"), URL: e.text("url", maxURL), Error: e.text("error", maxNackReason)}
	case tKick:
		return Kick{Why: e.text("why", MaxID)}
	case tStart:
		return Start{}
	case tStop:
		return Stop{}
	case tReauthorize:
		return Reauthorize{}
	case tCancel:
		return Cancel{ID: e.id()}
	}
	return e.frame(text)
}

func (HubState) Type() string { return tHub }

func (f HubState) Append(dst []byte) []byte {
	o := open(dst, tHub)
	o.text("state", f.State)
	o.optText("cause", f.Cause)
	o.optText("reason", f.Reason)
	o.optText("hint", f.Hint)
	if f.Resume {
		o.bool("resume", true)
	}
	o.optInt("attempt", f.Attempt)
	o.optInt("since", f.Since)
	o.optInt("nextRetry", f.NextRetry)
	o.optInt("notBefore", f.NotBefore)
	o.optText("session", f.Session)
	o.optText("user", f.User)
	if f.Interrupted {
		o.bool("interrupted", true)
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

func (Need) Type() string { return tNeed }

func (f Need) Append(dst []byte) []byte {
	o := open(dst, tNeed)
	o.uint("n", f.N)
	o.text("what", f.What)
	return o.close()
}

func (Have) Type() string { return tHave }

func (f Have) Append(dst []byte) []byte {
	o := open(dst, tHave)
	o.uint("n", f.N)
	o.optText("url", f.URL)
	o.optText("error", f.Error)
	return o.close()
}

func (Kick) Type() string { return tKick }

func (f Kick) Append(dst []byte) []byte {
	o := open(dst, tKick)
	o.text("why", f.Why)
	return o.close()
}

func (Start) Type() string                   { return tStart }
func (Start) Append(dst []byte) []byte       { return open(dst, tStart).close() }
func (Stop) Type() string                    { return tStop }
func (Stop) Append(dst []byte) []byte        { return open(dst, tStop).close() }
func (Reauthorize) Type() string             { return tReauthorize }
func (Reauthorize) Append(dst []byte) []byte { return open(dst, tReauthorize).close() }
func (Cancel) Type() string                  { return tCancel }

func (f Cancel) Append(dst []byte) []byte {
	o := open(dst, tCancel)
	o.text("id", f.ID)
	return o.close()
}

func (Problem) Type() string { return tProblem }

func (f Problem) Append(dst []byte) []byte {
	o := open(dst, tProblem)
	o.text("text", f.Text)
	return o.close()
}
