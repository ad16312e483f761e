package main

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/hack-pad/safejs"

	"github.com/longwire/longwire/jsbridge"
	"github.com/longwire/longwire/reconnect"
	"github.com/longwire/longwire/wasm/hub"
	"github.com/longwire/longwire/wire"
)

// options are what the shim passes on from connect.
type options struct {
	probe   string
	policy  reconnect.Policy
	hub     hub.Options
	channel string       // name of the one to the other tabs
	holds   safejs.Value // tells whether the lock is held
}

// numbers are the options that are numbers, with the fields they set: durations in
// ms, and counts.
var numbers = []struct {
	name, field string
	duration    func(*reconnect.Policy) *time.Duration
	count       func(*reconnect.Policy) *int
}{
	{name: "baseMs", field: "Base", duration: func(p *reconnect.Policy) *time.Duration { return &p.Base }},
	{name: "capMs", field: "Cap", duration: func(p *reconnect.Policy) *time.Duration { return &p.Cap }},
	{name: "stableAfterMs", field: "StableAfter", duration: func(p *reconnect.Policy) *time.Duration { return &p.StableAfter }},
	{name: "urlTimeoutMs", field: "URLTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.URLTimeout }},
	{name: "dialTimeoutMs", field: "DialTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.DialTimeout }},
	{name: "welcomeTimeoutMs", field: "WelcomeTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.WelcomeTimeout }},
	{name: "probeTimeoutMs", field: "ProbeTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.ProbeTimeout }},
	{name: "idleTimeoutMs", field: "IdleTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.IdleTimeout }},
	{name: "pingTimeoutMs", field: "PingTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.PingTimeout }},
	{name: "ackTimeoutMs", field: "AckTimeout", duration: func(p *reconnect.Policy) *time.Duration { return &p.AckTimeout }},
	{name: "expiryMs", field: "Expiry", duration: func(p *reconnect.Policy) *time.Duration { return &p.Expiry }},
	{name: "maxElapsedMs", field: "MaxElapsed", duration: func(p *reconnect.Policy) *time.Duration { return &p.MaxElapsed }},
	{name: "calmAfterMs", field: "CalmAfter", duration: func(p *reconnect.Policy) *time.Duration { return &p.CalmAfter }},
	{name: "maxPending", field: "MaxPending", count: func(p *reconnect.Policy) *int { return &p.MaxPending }},
	{name: "maxPendingBytes", field: "MaxPendingBytes", count: func(p *reconnect.Policy) *int { return &p.MaxPendingBytes }},
	{name: "maxMessage", field: "MaxMessage", count: func(p *reconnect.Policy) *int { return &p.MaxMessage }},
	{name: "maxAttempts", field: "MaxAttempts", count: func(p *reconnect.Policy) *int { return &p.MaxAttempts }},
}

// inPageTerms names the options of the page in an error about the fields they set.
func inPageTerms(err error) error {
	text := err.Error()
	for _, o := range numbers {
		text = strings.ReplaceAll(text, "reconnect: "+o.field+": ", "option "+o.name+": ")
	}
	return errors.New(text)
}

func readOptions(v safejs.Value) (options, error) {
	o := options{policy: reconnect.Policy{Rand: random}, holds: safejs.Undefined()}
	p := &o.policy
	var errs []error
	for _, option := range numbers {
		n, err := number(v, option.name)
		switch {
		case err != nil:
			errs = append(errs, err)
		case option.duration != nil:
			*option.duration(p) = time.Duration(n * float64(time.Millisecond))
		case n != float64(int(n)):
			errs = append(errs, errors.New("option "+option.name+": must be a whole number"))
		default:
			*option.count(p) = int(n)
		}
	}
	var err error
	if o.probe, err = text(v, "probe"); err != nil {
		errs = append(errs, err)
	}
	if p.Identity, err = text(v, "identity"); err != nil {
		errs = append(errs, err)
	}
	if p.Jitter, err = choice(v, "jitter", map[string]reconnect.Jitter{
		"full": reconnect.JitterFull, "equal": reconnect.JitterEqual, "none": reconnect.JitterNone,
	}); err != nil {
		errs = append(errs, err)
	}
	if p.Overflow, err = choice(v, "overflow", map[string]reconnect.Overflow{
		"refuse": reconnect.RefuseNew, "drop-oldest": reconnect.DropOldest,
	}); err != nil {
		errs = append(errs, err)
	}
	if p.CloseCodes, err = closeCodes(v); err != nil {
		errs = append(errs, err)
	}
	if p.Dialect, err = dialect(v); err != nil {
		errs = append(errs, err)
	}
	p.Probe = o.probe != ""
	if err := o.share(v); err != nil {
		errs = append(errs, err)
	}
	return o, errors.Join(errs...)
}

// A hub with several tabs keeps what each may have in flight; the limits of the page
// are kept in the tabs.
const (
	sharedPending = 1 << 15
	sharedBytes   = 64 << 20
)

// share reads what only a hub with other tabs has: channel, hubId, tabId, others,
// holds.
func (o *options) share(v safejs.Value) error {
	var err error
	if o.channel, err = text(v, "channel"); err != nil || o.channel == "" {
		return err
	}
	if o.hub.ID, err = text(v, "hubId"); err != nil {
		return err
	}
	if o.hub.Tab, err = text(v, "tabId"); err != nil {
		return err
	}
	if !wire.ValidID(o.hub.ID) || !wire.ValidID(o.hub.Tab) || o.hub.ID == o.hub.Tab {
		return errors.New("options hubId and tabId: must be two strings of 1 to 64 bytes")
	}
	others, err := jsbridge.Get(v, "others")
	if err != nil {
		return err
	}
	o.hub.Others = -1
	if others.Type() == safejs.TypeNumber {
		if o.hub.Others, err = others.Int(); err != nil {
			return err
		}
	}
	o.policy.MaxPending, o.policy.MaxPendingBytes, o.policy.Overflow = sharedPending, sharedBytes, reconnect.RefuseNew
	o.holds, err = jsbridge.Get(v, "holds")
	return err
}

// choice returns what the word in option name stands for, the zero value when it
// is not given.
func choice[T any](v safejs.Value, name string, words map[string]T) (T, error) {
	word, err := text(v, name)
	value, ok := words[word]
	if err == nil && word != "" && !ok {
		err = errors.New("option " + name + ": there is no " + strconv.Quote(word))
	}
	return value, err
}

// dialect returns the option dialect: "longwire", "plain", or an object. Hello and
// message may be any JSON value.
func dialect(v safejs.Value) (*reconnect.Dialect, error) {
	field, err := jsbridge.Get(v, "dialect")
	if err != nil || field.IsUndefined() || field.IsNull() {
		return nil, err
	}
	if field.Type() == safejs.TypeString {
		return choice(v, "dialect", map[string]*reconnect.Dialect{"longwire": nil, "plain": reconnect.Plain()})
	}
	if field.Type() != safejs.TypeObject {
		return nil, errors.New("option dialect: must be a word or an object")
	}
	d := &reconnect.Dialect{}
	var errs []error
	for name, member := range map[string]*string{
		"confirm": &d.Confirm, "session": &d.Session, "seq": &d.Seq, "ack": &d.Ack,
	} {
		if *member, err = text(field, name); err != nil {
			errs = append(errs, err)
		}
	}
	for name, template := range map[string]*string{"hello": &d.Hello, "message": &d.Message} {
		if *template, err = jsonOf(field, name); err != nil {
			errs = append(errs, err)
		}
	}
	plain, err := jsbridge.Get(field, "text")
	if err == nil {
		d.Text, err = plain.Truthy()
	}
	return d, errors.Join(append(errs, err)...)
}

// jsonOf returns the JSON of a member, "" when it is not given.
func jsonOf(v safejs.Value, name string) (string, error) {
	member, err := jsbridge.Get(v, name)
	if err != nil || member.IsUndefined() {
		return "", err
	}
	json, err := safejs.Global().Get("JSON")
	if err != nil {
		return "", err
	}
	value, err := json.Call("stringify", member)
	if err != nil || value.Type() != safejs.TypeString {
		return "", errors.New("option dialect." + name + ": is not JSON")
	}
	return value.String()
}

// closeCodes returns the option closeCodes, an object of close code to rule.
func closeCodes(v safejs.Value) (map[int]reconnect.CloseRule, error) {
	field, err := jsbridge.Get(v, "closeCodes")
	if err != nil || field.IsUndefined() || field.IsNull() {
		return nil, err
	}
	problem := errors.New("option closeCodes: must be an object of close codes to words")
	object, err := safejs.Global().Get("Object")
	if err != nil {
		return nil, err
	}
	keys, err := object.Call("keys", field)
	if err != nil {
		return nil, problem
	}
	n, err := keys.Length()
	if err != nil {
		return nil, problem
	}
	rules := make(map[int]reconnect.CloseRule, n)
	for i := range n {
		key, err := keys.Index(i)
		if err != nil {
			return nil, problem
		}
		name, err := key.String()
		if err != nil {
			return nil, problem
		}
		code, err := strconv.Atoi(name)
		if err != nil {
			return nil, problem
		}
		rule, err := text(field, name)
		if err != nil {
			return nil, problem
		}
		rules[code] = reconnect.CloseRule(rule)
	}
	return rules, nil
}

// maxNumber keeps a duration in ms within an int64 of nanoseconds.
const maxNumber = 1 << 40

// number returns the option name, 0 when it is not given.
func number(v safejs.Value, name string) (float64, error) {
	field, err := jsbridge.Get(v, name)
	if err != nil || field.IsUndefined() || field.IsNull() {
		return 0, err
	}
	n, err := field.Float()
	if err != nil || !(n > 0 && n < maxNumber) { // NaN is neither
		return 0, errors.New("option " + name + ": must be a positive number")
	}
	return n, nil
}

// text returns the option name, "" when it is not given.
func text(v safejs.Value, name string) (string, error) {
	field, err := jsbridge.Get(v, name)
	if err != nil || field.IsUndefined() || field.IsNull() {
		return "", err
	}
	s, err := field.String()
	if err != nil || field.Type() != safejs.TypeString {
		return "", errors.New("option " + name + ": must be a string")
	}
	return s, nil
}
