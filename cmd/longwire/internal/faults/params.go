package faults

import (
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// params reads the parameters of a request. The first that is bad is kept as
// the error; end adds those that nobody asked for.
type params struct {
	values url.Values
	asked  []string
	err    error
}

func (p *params) fail(name, format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("parameter %s: %s", name, fmt.Sprintf(format, args...))
	}
}

// text returns a parameter that may be given at most once.
func (p *params) text(name string) (value string, given bool) {
	p.asked = append(p.asked, name)
	values := p.values[name]
	if len(values) > 1 {
		p.fail(name, "given %d times", len(values))
	}
	if len(values) == 0 {
		return "", false
	}
	return values[0], true
}

// list returns a parameter that may be given several times.
func (p *params) list(name string) []string {
	p.asked = append(p.asked, name)
	return p.values[name]
}

func (p *params) required(name string) string {
	value, given := p.text(name)
	if !given {
		p.fail(name, "missing")
	}
	return value
}

// oneOf returns a word of a list; fallback if it is not given, which makes it
// required when empty.
func (p *params) oneOf(name, fallback string, words ...string) string {
	value, given := p.text(name)
	switch {
	case !given && fallback == "":
		p.fail(name, "missing, one of %s", strings.Join(words, ", "))
	case !given:
		return fallback
	case !slices.Contains(words, value):
		p.fail(name, "%q is not one of %s", value, strings.Join(words, ", "))
	}
	return value
}

func (p *params) number(name string, fallback, low, high int) int {
	value, given := p.text(name)
	if !given {
		return fallback
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < low || n > high {
		p.fail(name, "%q is not a number from %d to %d", value, low, high)
	}
	return n
}

func (p *params) duration(name string, fallback, high time.Duration) time.Duration {
	value, given := p.text(name)
	if !given {
		return fallback
	}
	d, err := time.ParseDuration(value)
	if err != nil || d < 0 || d > high {
		p.fail(name, "%q is not a duration from 0s to %s, such as 500ms", value, high)
	}
	return d
}

// end returns the first error, an unknown parameter being the last.
func (p *params) end() error {
	names := slices.Sorted(maps.Keys(p.values))
	slices.Sort(p.asked)
	p.asked = slices.Compact(p.asked)
	for _, name := range names {
		switch {
		case slices.Contains(p.asked, name):
		case len(p.asked) == 0:
			p.fail(name, "unknown; this verb takes none")
		default:
			p.fail(name, "unknown; this verb takes %s", strings.Join(p.asked, ", "))
		}
	}
	return p.err
}
