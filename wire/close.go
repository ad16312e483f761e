package wire

import (
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Close codes: those of RFC 6455 section 7.4.1 that matter here, and ours.
const (
	CloseNormal       = 1000 // finished on purpose
	CloseGoingAway    = 1001
	CloseProtocol     = 1002
	CloseUnsupported  = 1003 // binary where only text is spoken
	CloseNoStatus     = 1005 // never on the wire: a close frame without a code
	CloseAbnormal     = 1006 // never on the wire: lost without a close frame
	CloseInvalidUTF8  = 1007
	ClosePolicy       = 1008
	CloseTooBig       = 1009
	CloseInternal     = 1011
	CloseRestart      = 1012
	CloseTryLater     = 1013
	CloseLeaving      = 4001 // from a client: the page goes, or the hub hands over
	CloseBadRequest   = 4400
	CloseLoginExpired = 4401
	CloseForbidden    = 4403
	CloseNotFound     = 4404
	CloseNoSignOfLife = 4408 // from a client: the link is dead
	CloseNotNewest    = 4409 // a newer connection has taken this session over
	CloseGone         = 4410
	CloseTooMany      = 4429
)

// ClipReason cuts reason to the 123 bytes a close frame has room for, on a rune
// boundary, and replaces what is not valid UTF-8.
func ClipReason(reason string) string {
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= MaxReason {
		return reason
	}
	n := MaxReason
	for n > 0 && !utf8.RuneStart(reason[n]) {
		n--
	}
	return reason[:n]
}

// RetryReason is the close reason that asks the peer to wait a time drawn
// uniformly from [low, high], rounded to milliseconds. It goes with
// CloseRestart, CloseTryLater and CloseTooMany.
func RetryReason(low, high time.Duration) string {
	return "retry=" + strconv.FormatInt(low.Milliseconds(), 10) + "-" + strconv.FormatInt(high.Milliseconds(), 10)
}

// ParseRetryReason reads what RetryReason writes. ok is false for any other
// text, for a range turned round and for numbers beyond a day.
func ParseRetryReason(reason string) (low, high time.Duration, ok bool) {
	text, ok := strings.CutPrefix(reason, "retry=")
	if !ok {
		return 0, 0, false
	}
	from, to, ok := strings.Cut(text, "-")
	if !ok {
		return 0, 0, false
	}
	const day = 24 * 60 * 60 * 1000
	a, errA := strconv.ParseUint(from, 10, 63)
	b, errB := strconv.ParseUint(to, 10, 63)
	if errA != nil || errB != nil || a > b || b > day {
		return 0, 0, false
	}
	return time.Duration(a) * time.Millisecond, time.Duration(b) * time.Millisecond, true
}

// GenReason is the reason of a CloseNotNewest: the fencing number in force.
func GenReason(gen uint64) string { return "gen=" + strconv.FormatUint(gen, 10) }

// ParseGenReason reads what GenReason writes; ok is false for any other text.
func ParseGenReason(reason string) (gen uint64, ok bool) {
	text, ok := strings.CutPrefix(reason, "gen=")
	if !ok {
		return 0, false
	}
	gen, err := strconv.ParseUint(text, 10, 64)
	return gen, err == nil && gen <= MaxSeq
}
