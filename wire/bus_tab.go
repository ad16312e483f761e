package wire

// Frames that a tab sends to the hub.
type (
	// Standing says where a tab stands, and what it knows of the hub before.
	Standing struct {
		// Gen is the highest number of a hub under which one of the positions moved.
		Gen     uint64
		Session string // that Own is of, "" when it is not known
		User    string
		Own     Want // position on the session's own stream
		NotOwn  bool // the tab does not follow the own stream
		Subs    map[string]Want

		// Of the last hub state that the tab saw.
		Attempt   int64
		NotBefore int64 // ms since 1970, 0: none
		Live      bool
	}
	// Rejoin is what a resume is on the bus: it answers a hub that asks for one.
	Rejoin struct{ Standing }
	// Here answers a beat, and tells a hub of one above it.
	Here struct {
		Standing
		Visible bool
		Known   uint64 // the highest number of a hub that the tab knows,
		Hub     string // and the id of that hub, "" when it is not known
		Ask     bool   // a hub frame is wanted back
	}

	// Have answers Need: with a URL, or with why there is none.
	Have struct {
		N     uint64
		URL   string
		Error string
	}
	// Kick tells a hub what a tab noticed: Why is "online", "offline",
	// "visible", "user", or "now" for the wish of the application.
	Kick struct{ Why string }
	// Start begins: from idle, or afresh after an end.
	Start struct{}
	// Stop ends for good.
	Stop struct{}
	// Reauthorize says that there is a new login.
	Reauthorize struct{}
	// Cancel withdraws a message.
	Cancel struct{ ID string }
	// Take asks the hub to hand over.
	Take struct{}
)

// maxURL bounds a URL on the bus: longer ones no server takes.
const maxURL = 32 << 10

// DecodeFromTab reads one frame that a tab sends: one of those above, Bye, or a
// frame of the wire, of which resume is read as Rejoin. It is otherwise like
// Decode.
func DecodeFromTab(text []byte) (Frame, error) { return decodeOne(text, (*parsed).fromTab) }

func (e *parsed) fromTab(text []byte) Frame {
	switch e.t {
	case tResume:
		return Rejoin{e.standing()}
	case tHere:
		return Here{Standing: e.standing(), Visible: e.bool("visible"), Known: uint64(e.int("known")), Hub: e.text("h", MaxID), Ask: e.bool("ask")}
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
	case tTake:
		return Take{}
	case tBye:
		return Bye{}
	}
	f := e.frame(text)
	if msg, ok := f.(Msg); ok {
		msg.Dedupe, msg.Age = e.text("dedupe", MaxSession), e.int("age")
		return msg
	}
	return f
}

func (e *parsed) standing() Standing {
	r, _ := e.resume().(Resume)
	s := Standing{
		Gen: r.Gen, Session: r.Session, User: r.User, Own: r.Own, Subs: r.Subs,
		Attempt: e.int("attempt"), NotBefore: e.int("notBefore"), Live: e.bool("live"),
	}
	if _, ok := e.find("own"); ok {
		s.NotOwn = !e.bool("own")
	}
	if s.NotOwn && s.Own.Has {
		e.fail("after", e.raw("after"), "beside own:false")
	}
	return s
}

func (o *object) standing(s Standing) {
	o.optText("session", s.Session)
	if s.Gen != 0 {
		o.uint("gen", s.Gen)
	}
	o.optText("user", s.User)
	if s.NotOwn {
		o.bool("own", false)
	}
	o.want(s.Own)
	nested(o, "subs", s.Subs, (*object).want)
	o.optInt("attempt", s.Attempt)
	o.optInt("notBefore", s.NotBefore)
	o.optTrue("live", s.Live)
}

func (Rejoin) Type() string { return tResume }

func (f Rejoin) Append(dst []byte) []byte {
	o := open(dst, tResume)
	o.standing(f.Standing)
	return o.close()
}

func (Here) Type() string { return tHere }

func (f Here) Append(dst []byte) []byte {
	o := open(dst, tHere)
	o.standing(f.Standing)
	o.optTrue("visible", f.Visible)
	if f.Known != 0 {
		o.uint("known", f.Known)
	}
	o.optText("h", f.Hub)
	o.optTrue("ask", f.Ask)
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
func (Take) Type() string                    { return tTake }
func (Take) Append(dst []byte) []byte        { return open(dst, tTake).close() }
func (Cancel) Type() string                  { return tCancel }

func (f Cancel) Append(dst []byte) []byte {
	o := open(dst, tCancel)
	o.text("id", f.ID)
	return o.close()
}
