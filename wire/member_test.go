package wire_test

import (
	"testing"

	"github.com/longwire/longwire/wire"
)

func TestMembersOfForeignMessages(t *testing.T) {
	const text = ` {"a":1,"b":"x\u0041","c":{"a":2},"a":3} `
	for name, want := range map[string]string{"a": "3", "b": `"x\u0041"`, "c": `{"a":2}`} {
		if got, ok := wire.Member([]byte(text), name); !ok || string(got) != want {
			t.Errorf("Member(%s) = %s, %v; want %s", name, got, ok, want)
		}
	}
	for _, bad := range []string{"", "[]", "7", `{"a":1`, `{"a":1}x`, `{"b":1}`} {
		if got, ok := wire.Member([]byte(bad), "a"); ok && bad != `{"a":1}` {
			t.Errorf("Member of %q = %s", bad, got)
		}
	}
	for text, want := range map[string]bool{`{"a":[1,null]}`: true, ` 7 `: true, ``: false, `7 7`: false, "\"\xff\"": false, `"a": 1`: false} {
		if got := wire.Valid([]byte(text)); got != want {
			t.Errorf("Valid(%q) = %v", text, got)
		}
	}
	for text, want := range map[string]uint64{"0": 0, "9007199254740991": wire.MaxSeq} {
		if got, ok := wire.Raw(text).Uint(); !ok || got != want {
			t.Errorf("%s: %d %v", text, got, ok)
		}
	}
	for _, text := range []string{"", "-1", "1.0", "9007199254740992", `"1"`, "null"} {
		if got, ok := wire.Raw(text).Uint(); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
	if got, ok := wire.Raw(`"x\u0041"`).Text(); !ok || got != "xA" {
		t.Errorf("got %q %v", got, ok)
	}
	for _, text := range []string{"", "7", `"a`, `"a"b`, "null"} {
		if got, ok := wire.Raw(text).Text(); ok {
			t.Errorf("%q is taken for %q", text, got)
		}
	}
}
