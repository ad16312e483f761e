package wire

import "time"

// Limits and defaults of the protocol. Sizes are in bytes.
const (
	MaxSeq         = 1<<53 - 1 // a JavaScript number is exact up to here
	MaxID          = 64        // length of a message id, at least 1
	MaxStreamName  = 128       // length of a stream name, at least 1 when named
	MaxSession     = 64        // length of a session id
	MaxUser        = 256       // length of a user
	MaxEpoch       = 64        // length of an epoch
	MaxStreams     = 256       // streams of one connection
	MaxReason      = 123       // UTF-8 bytes of a close reason, RFC 6455 section 5.5
	MaxClientFrame = 64 << 10  // a frame from a client
	MaxResume      = 256 << 10 // the resume frame
	MaxServerFrame = 16 << 20  // what our client takes by default
	BatchBytes     = 32 << 10  // what a batch of events aims at
	LargeFrame     = 256 << 10 // a frame above this is announced by hb.next

	DefaultWindow = 32        // messages in flight when the welcome names none
	WindowBytes   = 256 << 10 // and never more bytes than this

	DefaultHeartbeat    = 15 * time.Second
	DefaultSpread       = 8 * time.Second
	DefaultDedupe       = 10 * time.Minute
	DefaultHelloTimeout = 10 * time.Second // upgrade to resume, and dial to welcome
	DefaultWriteTimeout = 10 * time.Second // without any progress
	DefaultStableAfter  = 5 * time.Second
)

// ValidStream reports whether name can name a stream: 1 to MaxStreamName bytes
// of [A-Za-z0-9._:/-]. The empty name, the session's own stream, is not a name.
func ValidStream(name string) bool {
	if name == "" || len(name) > MaxStreamName {
		return false
	}
	for i := range len(name) {
		switch c := name[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '_', c == ':', c == '/', c == '-':
		default:
			return false
		}
	}
	return true
}

// ValidID reports whether id can be the id of a message: 1 to MaxID bytes.
func ValidID(id string) bool { return id != "" && len(id) <= MaxID }
