package wire

// The typed getters of a parsed frame. Each notes the first thing found wrong in
// e.err, with frame, field and value, and then returns a zero value.

func (e *parsed) find(name string) (field, bool) {
	for _, f := range e.fields {
		if string(f.key) == name && string(f.value) != "null" {
			return f, true
		}
	}
	return field{}, false
}

func (e *parsed) fail(name string, value []byte, problem string) {
	if e.err == nil {
		e.err = fieldError(e.t, name, value, problem)
	}
}

// raw returns the payload name, nil when it is absent.
func (e *parsed) raw(name string) Raw {
	f, _ := e.find(name)
	return f.value
}

func (e *parsed) bool(name string) bool {
	f, ok := e.find(name)
	if !ok || string(f.value) == "false" {
		return false
	}
	if string(f.value) != "true" {
		e.fail(name, f.value, "must be true or false")
	}
	return true
}

// uint returns an integer from 0 to MaxSeq; ok is false when it is absent.
func (e *parsed) uint(name string) (n uint64, ok bool) {
	f, ok := e.find(name)
	if !ok {
		return 0, false
	}
	n, ok = Raw(f.value).Uint()
	if !ok {
		e.fail(name, f.value, "must be an integer from 0 to 2^53-1")
	}
	return n, ok
}

// int is uint for a number that may be absent and then is 0.
func (e *parsed) int(name string) int64 {
	n, _ := e.uint(name)
	return int64(n) //nolint:gosec // uint bounds it by MaxSeq
}

// need is uint for a number that must be there.
func (e *parsed) need(name string) uint64 {
	n, ok := e.uint(name)
	if !ok {
		e.fail(name, nil, "missing")
	}
	return n
}

// text returns a string of at most limit bytes, "" when it is absent.
func (e *parsed) text(name string, limit int) string {
	f, ok := e.find(name)
	if !ok {
		return ""
	}
	if f.value[0] != '"' {
		e.fail(name, f.value, "must be a string")
		return ""
	}
	s := jsonText(f.value)
	if len(s) > limit {
		e.fail(name, f.value, "is too long")
		return ""
	}
	return s
}

// id returns a message id, which must be there and not empty.
func (e *parsed) id() string {
	s := e.text("id", MaxID)
	if s == "" {
		e.fail("id", e.raw("id"), "must be a string of 1 to 64 bytes")
	}
	return s
}

// stream returns a stream name, "" when none is named.
func (e *parsed) stream() string {
	s := e.text("stream", MaxStreamName)
	if s != "" && !ValidStream(s) {
		e.fail("stream", e.raw("stream"), streamProblem)
	}
	return s
}

const streamProblem = "must be 1 to 128 bytes of [A-Za-z0-9._:/-]"

func (e *parsed) want() Want {
	after, has := e.uint("after")
	return Want{Has: has, After: after, Epoch: e.text("epoch", MaxEpoch)}
}

func (e *parsed) answer() Answer {
	a := Answer{
		Epoch:  e.text("epoch", MaxEpoch),
		Resync: e.bool("resync"),
		Error:  e.text("error", MaxReason),
		Retry:  e.int("retry"),
	}
	a.Seq, _ = e.uint("seq")
	a.First, _ = e.uint("first")
	return a
}

// nested reads the object in field name member by member, each itself an object
// that get reads. A member that is at fault is named `name.key`.
func (e *parsed) nested(name string, get func(key string, member *parsed)) {
	f, ok := e.find(name)
	if !ok {
		return
	}
	if f.value[0] != '{' {
		e.fail(name, f.value, "must be an object")
		return
	}
	eachMember(f.value, 0, func(key []byte, start int) int {
		end := scanValue(f.value, start)
		value := f.value[start:end:end]
		path := name + "." + string(key)
		if !ValidStream(string(key)) {
			e.fail(path, nil, "stream name "+streamProblem)
			return end
		}
		member := parsed{t: e.t}
		if value[0] != '{' {
			e.fail(path, value, "must be an object")
			return end
		}
		member.split(value)
		get(string(key), &member)
		if e.err == nil && member.err != nil {
			inner := member.err.(*Error) //nolint:errorlint,forcetypeassert // fail makes no other
			inner.Field = path + "." + inner.Field
			e.err = inner
		}
		return end
	})
}

// frame builds the frame of type e.t.
func (e *parsed) frame(text []byte) Frame {
	switch e.t {
	case tEvent:
		return Event{Seq: e.need("seq"), Stream: e.stream(), Data: e.raw("data"), Text: text}
	case tEvents:
		return e.events()
	case tMsg:
		f := Msg{ID: e.id(), Body: e.raw("body"), Expiry: e.int("expiry")}
		if f.Body == nil {
			e.fail("body", nil, "missing")
		}
		return f
	case tAck:
		return Ack{ID: e.id(), Result: e.raw("result")}
	case tNack:
		f := Nack{ID: e.id(), Code: e.text("code", MaxReason), Reason: e.text("reason", maxNackReason)}
		_, f.HasRetry = e.uint("retry")
		f.Retry = e.int("retry")
		return f
	case tHeartbeat:
		return Heartbeat{Next: e.int("next"), Stream: e.stream(), Stale: e.int("stale")}
	case tPing:
		return Ping{N: e.need("n")}
	case tPong:
		return Pong{N: e.need("n")}
	case tSub:
		return Sub{Stream: e.stream(), Want: e.want()}
	case tUnsub:
		return Unsub{Stream: e.stream()}
	case tSubbed:
		return Subbed{Stream: e.stream(), Answer: e.answer()}
	case tSnapshot:
		return e.snapshot()
	case tReset:
		return Reset{
			Stream: e.stream(), Seq: e.need("seq"), Epoch: e.text("epoch", MaxEpoch),
			First: uint64(e.int("first")), Snapshot: e.bool("snapshot"), Reason: e.text("reason", maxNackReason),
		}
	case tDrain:
		return Drain{Within: e.int("within")}
	case tResume:
		return e.resume()
	case tWelcome:
		return e.welcome()
	}
	return Unknown{T: e.t}
}

// maxNackReason bounds texts for people: a nack or a reset is not a close frame
// and may say more.
const maxNackReason = 1024

func (e *parsed) events() Frame {
	f := Events{From: e.need("from"), Stream: e.stream()}
	data, ok := e.find("data")
	if !ok || data.value[0] != '[' {
		e.fail("data", data.value, "must be an array")
		return f
	}
	f.Data = e.data
	if f.Data == nil {
		f.Data, _ = scanArray(data.value, 0)
	}
	if f.From == 0 || f.From+uint64(len(f.Data)) > MaxSeq+1 {
		e.fail("from", e.raw("from"), "numbers run from 1 to 2^53-1")
	}
	return f
}

func (e *parsed) snapshot() Frame {
	f := Snapshot{Epoch: e.text("epoch", MaxEpoch), Stream: e.stream(), State: e.raw("state")}
	f.Seq, f.HasSeq = e.uint("seq")
	if f.State == nil {
		// null is a state like any other.
		f.State = Raw("null")
	}
	return f
}

func (e *parsed) resume() Frame {
	f := Resume{
		V:       int(e.int("v")),
		Session: e.text("session", MaxSession),
		Gen:     uint64(e.int("gen")),
		User:    e.text("user", MaxUser),
		Own:     e.want(),
		Batch:   e.bool("batch"),
		Away:    e.int("away"),
	}
	e.nested("subs", func(stream string, member *parsed) {
		if f.Subs == nil {
			f.Subs = make(map[string]Want)
		}
		f.Subs[stream] = member.want()
	})
	return f
}

func (e *parsed) welcome() Frame {
	f := Welcome{
		V:         int(e.int("v")),
		Session:   e.text("session", MaxSession),
		Gen:       uint64(e.int("gen")),
		User:      e.text("user", MaxUser),
		Own:       e.answer(),
		Heartbeat: e.int("heartbeat"),
		MaxFrame:  e.int("maxFrame"),
		Window:    e.int("window"),
		Spread:    e.int("spread"),
	}
	if f.Session == "" {
		e.fail("session", nil, "missing")
	}
	if dedupe, ok := e.find("dedupe"); ok {
		member := parsed{t: e.t}
		if dedupe.value[0] == '{' {
			member.split(dedupe.value)
			f.DedupeID, f.DedupeMs = member.text("id", MaxSession), member.int("ms")
			if e.err == nil {
				e.err = member.err
			}
		} else {
			e.fail("dedupe", dedupe.value, "must be an object")
		}
	}
	e.nested("subs", func(stream string, member *parsed) {
		if f.Subs == nil {
			f.Subs = make(map[string]Answer)
		}
		f.Subs[stream] = member.answer()
	})
	return f
}
