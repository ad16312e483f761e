package wire_test

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/longwire/longwire/wire"
)

func TestRetryReasonReadsBack(t *testing.T) {
	reason := wire.RetryReason(1500*time.Millisecond, 4*time.Second)
	if want := "retry=1500-4000"; reason != want {
		t.Fatalf("got %q want %q", reason, want)
	}
	low, high, ok := wire.ParseRetryReason(reason)
	if low != 1500*time.Millisecond || high != 4*time.Second || !ok {
		t.Errorf("got %v %v %v", low, high, ok)
	}
	for _, bad := range []string{"", "retry=", "retry=5", "retry=5-", "retry=-5", "retry=9-5", "retry=1.5-2", "retry=0-99999999999999999999", "retry=0-86400001", "restart", "xretry=1-2"} {
		if low, high, ok := wire.ParseRetryReason(bad); ok || low != 0 || high != 0 {
			t.Errorf("ParseRetryReason(%q) = %v %v %v, want nothing", bad, low, high, ok)
		}
	}
}

func TestGenReasonReadsBack(t *testing.T) {
	if gen, ok := wire.ParseGenReason(wire.GenReason(42)); gen != 42 || !ok {
		t.Errorf("got %d %v", gen, ok)
	}
	for _, bad := range []string{"", "gen=", "gen=-1", "gen=x", "9", "gen=9007199254740992"} {
		if _, ok := wire.ParseGenReason(bad); ok {
			t.Errorf("ParseGenReason(%q) is taken", bad)
		}
	}
}

func TestClipReasonKeepsWholeRunes(t *testing.T) {
	for _, reason := range []string{"", strings.Repeat("x", 123), strings.Repeat("x", 124), strings.Repeat("é", 60), strings.Repeat("é", 62), "a" + strings.Repeat("é", 61), strings.Repeat("😀", 31), "\xed\xa0\x80lone"} {
		got := wire.ClipReason(reason)
		if len(got) > wire.MaxReason || !utf8.ValidString(got) {
			t.Errorf("ClipReason(%q) = %d bytes, valid %v", reason, len(got), utf8.ValidString(got))
		}
		if utf8.ValidString(reason) && !strings.HasPrefix(reason, got) {
			t.Errorf("ClipReason(%q) = %q is not its start", reason, got)
		}
		if utf8.ValidString(reason) && len(reason) > wire.MaxReason && len(got) < wire.MaxReason-3 {
			t.Errorf("ClipReason(%q) cut to %d bytes", reason, len(got))
		}
	}
}

func TestValidStream(t *testing.T) {
	for name, want := range map[string]bool{
		"": false, "host": true, "a/b.c:d_e-F9": true, "a b": false, "ä": false, "a\x00": false,
		strings.Repeat("x", 128): true, strings.Repeat("x", 129): false,
	} {
		if got := wire.ValidStream(name); got != want {
			t.Errorf("ValidStream(%q) = %v", name, got)
		}
	}
}
