package wire

import (
	"maps"
	"slices"
	"strconv"
)

// object appends members to a JSON object that is being built. Optional members
// are left out when they hold their zero value.
type object []byte

// Not inlined, as name is not: 9 kB less of the wasm, and 6 ns more for an event.
//
//go:noinline
func open(dst []byte, t string) object {
	dst = append(dst, `{"t":"`...)
	dst = append(dst, t...)
	return append(dst, '"')
}

//go:noinline
func (o *object) name(name string) {
	if (*o)[len(*o)-1] != '{' {
		*o = append(*o, ',')
	}
	*o = append(*o, '"')
	*o = append(*o, name...)
	*o = append(*o, '"', ':')
}

func (o *object) uint(name string, n uint64) {
	o.name(name)
	*o = strconv.AppendUint(*o, n, 10)
}

func (o *object) optInt(name string, n int64) {
	if n != 0 {
		o.name(name)
		*o = strconv.AppendInt(*o, n, 10)
	}
}

func (o *object) text(name, s string) {
	o.name(name)
	*o = AppendString(*o, s)
}

func (o *object) optText(name, s string) {
	if s != "" {
		o.text(name, s)
	}
}

func (o *object) bool(name string, v bool) {
	o.name(name)
	*o = strconv.AppendBool(*o, v)
}

func (o *object) raw(name string, v Raw) {
	o.name(name)
	if v == nil {
		v = Raw("null")
	}
	*o = append(*o, v...)
}

func (o *object) want(w Want) {
	if w.Has {
		o.uint("after", w.After)
		o.optText("epoch", w.Epoch)
	}
}

func (o *object) answer(a Answer) {
	if a.Error != "" {
		o.text("error", a.Error)
		o.optInt("retry", a.Retry)
		return
	}
	o.uint("seq", a.Seq)
	o.optText("epoch", a.Epoch)
	o.uint("first", a.First)
	o.bool("resync", a.Resync)
}

// optTrue appends a member that is left out when it is false.
func (o *object) optTrue(name string, v bool) {
	if v {
		o.bool(name, true)
	}
}

// nested appends a member that is an object of objects, in the order of its keys.
func nested[V any](o *object, name string, m map[string]V, member func(*object, V)) {
	if len(m) == 0 {
		return
	}
	o.name(name)
	*o = append(*o, '{')
	keys := slices.AppendSeq(make([]string, 0, len(m)), maps.Keys(m))
	slices.Sort(keys)
	for _, key := range keys {
		o.name(key)
		*o = append(*o, '{')
		member(o, m[key])
		*o = append(*o, '}')
	}
	*o = append(*o, '}')
}

func (o object) close() []byte { return append(o, '}') }

func (Resume) Type() string { return tResume }

func (f Resume) Append(dst []byte) []byte {
	o := open(dst, tResume)
	o.optInt("v", int64(f.V))
	o.optText("session", f.Session)
	if f.Gen != 0 {
		o.uint("gen", f.Gen)
	}
	o.optText("user", f.User)
	o.want(f.Own)
	nested(&o, "subs", f.Subs, (*object).want)
	o.optTrue("batch", f.Batch)
	o.optInt("away", f.Away)
	return o.close()
}

func (Sub) Type() string { return tSub }

func (f Sub) Append(dst []byte) []byte {
	o := open(dst, tSub)
	o.optText("stream", f.Stream)
	o.want(f.Want)
	return o.close()
}

func (Unsub) Type() string { return tUnsub }

func (f Unsub) Append(dst []byte) []byte {
	o := open(dst, tUnsub)
	o.optText("stream", f.Stream)
	return o.close()
}

func (Msg) Type() string { return tMsg }

func (f Msg) Append(dst []byte) []byte {
	o := open(dst, tMsg)
	o.text("id", f.ID)
	o.raw("body", f.Body)
	o.optInt("expiry", f.Expiry)
	o.optText("dedupe", f.Dedupe)
	o.optInt("age", f.Age)
	return o.close()
}

func (Ping) Type() string { return tPing }

func (f Ping) Append(dst []byte) []byte {
	o := open(dst, tPing)
	o.uint("n", f.N)
	return o.close()
}

func (Welcome) Type() string { return tWelcome }

func (f Welcome) Append(dst []byte) []byte {
	o := open(dst, tWelcome)
	o.optInt("v", int64(f.V))
	o.text("session", f.Session)
	if f.Gen != 0 {
		o.uint("gen", f.Gen)
	}
	o.optText("user", f.User)
	o.answer(f.Own)
	o.optInt("heartbeat", f.Heartbeat)
	o.optInt("maxFrame", f.MaxFrame)
	o.optInt("window", f.Window)
	o.optInt("spread", f.Spread)
	if f.DedupeID != "" {
		o.name("dedupe")
		o = append(o, '{')
		o.text("id", f.DedupeID)
		o.optInt("ms", f.DedupeMs)
		o = append(o, '}')
	}
	nested(&o, "subs", f.Subs, (*object).answer)
	return o.close()
}

func (Subbed) Type() string { return tSubbed }

func (f Subbed) Append(dst []byte) []byte {
	o := open(dst, tSubbed)
	o.optText("stream", f.Stream)
	o.answer(f.Answer)
	return o.close()
}

func (Event) Type() string { return tEvent }

func (f Event) Append(dst []byte) []byte {
	o := open(dst, tEvent)
	o.uint("seq", f.Seq)
	o.optText("stream", f.Stream)
	o.raw("data", f.Data)
	return o.close()
}

func (Events) Type() string { return tEvents }

func (f Events) Append(dst []byte) []byte {
	o := open(dst, tEvents)
	o.uint("from", f.From)
	o.optText("stream", f.Stream)
	o.name("data")
	o = append(o, '[')
	for i, data := range f.Data {
		if i > 0 {
			o = append(o, ',')
		}
		o = append(o, data...)
	}
	return append(o, ']', '}')
}

func (Snapshot) Type() string { return tSnapshot }

func (f Snapshot) Append(dst []byte) []byte {
	o := open(dst, tSnapshot)
	if f.HasSeq {
		o.uint("seq", f.Seq)
	}
	o.optText("epoch", f.Epoch)
	o.optText("stream", f.Stream)
	o.raw("state", f.State)
	return o.close()
}

func (Reset) Type() string { return tReset }

func (f Reset) Append(dst []byte) []byte {
	o := open(dst, tReset)
	o.optText("stream", f.Stream)
	o.uint("seq", f.Seq)
	o.optText("epoch", f.Epoch)
	o.uint("first", f.First)
	o.bool("snapshot", f.Snapshot)
	o.optText("reason", f.Reason)
	return o.close()
}

func (Ack) Type() string { return tAck }

func (f Ack) Append(dst []byte) []byte {
	o := open(dst, tAck)
	o.text("id", f.ID)
	if f.Result != nil {
		o.raw("result", f.Result)
	}
	return o.close()
}

func (Nack) Type() string { return tNack }

func (f Nack) Append(dst []byte) []byte {
	o := open(dst, tNack)
	o.text("id", f.ID)
	o.optText("code", f.Code)
	o.optText("reason", f.Reason)
	if f.HasRetry {
		o.uint("retry", uint64(max(f.Retry, 0)))
	}
	o.optText("outcome", f.Outcome)
	return o.close()
}

func (Heartbeat) Type() string { return tHeartbeat }

func (f Heartbeat) Append(dst []byte) []byte {
	o := open(dst, tHeartbeat)
	o.optInt("next", f.Next)
	o.optText("stream", f.Stream)
	o.optInt("stale", f.Stale)
	return o.close()
}

func (Pong) Type() string { return tPong }

func (f Pong) Append(dst []byte) []byte {
	o := open(dst, tPong)
	o.uint("n", f.N)
	return o.close()
}

func (Drain) Type() string { return tDrain }

func (f Drain) Append(dst []byte) []byte {
	o := open(dst, tDrain)
	o.optInt("within", f.Within)
	return o.close()
}

// Type returns the type that the frame named.
func (f Unknown) Type() string { return f.T }

func (f Unknown) Append(dst []byte) []byte {
	return object(append(AppendString(append(dst, `{"t":`...), f.T), '}'))
}

// Rest returns the members of a received event other than t and seq, as one JSON
// object: towards a server without a version, that is the payload. It returns
// Data for a frame that was built.
func (f Event) Rest() Raw {
	if f.Text == nil {
		return f.Data
	}
	o := object{'{'}
	start := space(f.Text, 0)
	eachMember(f.Text, start, func(key []byte, at int) int {
		end := scanValue(f.Text, at)
		if k := string(key); end >= 0 && k != "t" && k != "seq" {
			if len(o) > 1 {
				o = append(o, ',')
			}
			o = append(AppendString(o, k), ':')
			o = append(o, f.Text[at:end]...)
		}
		return end
	})
	return Raw(o.close())
}
