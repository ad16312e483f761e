package jsbridge

import (
	"strings"
	"unicode/utf8"
)

// The codes a page may close with: 1000, and from codeFirst to codeLast.
const (
	codeNormal  = 1000
	codeFirst   = 3000
	codeLast    = 4999
	codeUnnamed = 4000 // sent for a code that means nothing in a close frame
)

// legalCode maps a close code to one that a browser sends.
func legalCode(code int) int {
	switch {
	case code == codeNormal || codeFirst <= code && code <= codeLast:
		return code
	case 1001 <= code && code <= 1015: // those of RFC 6455 section 7.4.1
		return codeUnnamed + code - codeNormal
	}
	return codeUnnamed
}

// maxReason is how many bytes of reason fit into a close frame (RFC 6455 section 5.5).
const maxReason = 123

// clipReason cuts reason to maxReason bytes at the end of a character.
func clipReason(reason string) string {
	// JavaScript would make three bytes of each stray one.
	reason = strings.ToValidUTF8(reason, "\uFFFD")
	if len(reason) <= maxReason {
		return reason
	}
	end := maxReason
	for !utf8.RuneStart(reason[end]) {
		end--
	}
	return reason[:end]
}
