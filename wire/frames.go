package wire

// Raw is JSON text exactly as it was received: a payload that no one between
// sender and application decodes. A nil Raw means the field was absent.
//
// A decoded Raw aliases the message it was decoded from: copy it to keep it
// beyond the life of that buffer.
type Raw []byte

// Frame is one frame of the protocol. The concrete types are the structs of this
// file; switch on them.
type Frame interface {
	// Append appends the frame as one JSON object to dst and returns the
	// extended buffer. It does not validate: what is read by Decode can be
	// appended, and so can what was built from valid values.
	Append(dst []byte) []byte
	// Type is the value of the field "t".
	Type() string
}

// Version is the protocol version that resume and welcome carry in "v".
const Version = 1

// Want is what a client asks for of one stream.
type Want struct {
	// Has reports whether there is a position. Without one the stream is asked
	// for from a snapshot or, where it has none, from now. Zero is a position.
	Has bool
	// After is the sequence number of the last event that was handled.
	After uint64
	// Epoch is the numbering that After belongs to.
	Epoch string
}

// Answer is what the server says of one stream, in welcome and in subbed.
type Answer struct {
	// Seq is the head: the number of the newest event, 0 for none yet.
	Seq uint64
	// Epoch names the numbering.
	Epoch string
	// First is the lowest position that the log covers.
	First uint64
	// Resync voids the position of the client: exactly one snapshot or reset
	// follows. Otherwise what was missed follows.
	Resync bool
	// Error is empty, or one of the Err… codes; the other fields are then void.
	Error string
	// Retry accompanies ErrBusy: milliseconds after which to ask again.
	Retry int64
}

// Values of Answer.Error.
const (
	ErrForbidden = "forbidden" // Authorize said no, or no longer says yes
	ErrLimit     = "limit"     // more streams than one connection may follow
	ErrBusy      = "busy"      // ask again after Retry
)

// Codes of a Nack that the protocol itself knows. Applications add their own.
const (
	NackUnknown   = "unknown"   // whether the message took effect cannot be said
	NackConflict  = "conflict"  // the same id was used with another body
	NackBusy      = "busy"      // refused for now: with Retry
	NackFailed    = "failed"    // the handler failed without a code of its own
	NackCancelled = "cancelled" // withdrawn before it was written
)

// Frames from client to server.
type (
	// Resume is the first frame of a connection, always, exactly once.
	Resume struct {
		V       int    // protocol version, 0: a client of the base frames only
		Session string // session to take up again, empty: a new one
		Gen     uint64 // fencing number proposed by the client
		User    string // whom positions and unsent messages belong to, if known
		Own     Want   // position on the session's own stream
		Subs    map[string]Want
		Batch   bool  // the client reads events frames and arrays of frames
		Away    int64 // milliseconds since the last confirmed session
	}

	// Sub asks to follow a stream; an empty Stream is the session's own.
	Sub struct {
		Stream string
		Want   Want
	}

	// Unsub stops following a stream.
	Unsub struct{ Stream string }

	// Msg is a message of the application. ID is unique per user and the same
	// on every resend.
	Msg struct {
		ID   string
		Body Raw
		// The rest is for the bus only. Expiry is how many ms to wait for an answer,
		// 0: the default.
		Expiry int64
		// Dedupe says of a message that another hub had before which memory of
		// message ids the first one knew, and Age how many ms ago that was.
		Dedupe string
		Age    int64
	}

	// Ping asks for a Pong with the same N.
	Ping struct{ N uint64 }
)

// Frames from server to client.
type (
	// Welcome confirms the session.
	Welcome struct {
		V         int
		Session   string
		Gen       uint64
		User      string
		Own       Answer // the session's own stream
		Heartbeat int64  // ms between heartbeats, 0: none announced
		MaxFrame  int64  // bytes of the largest frame the server takes, 0: not said
		Window    int64  // messages in flight, 0: not said (DefaultWindow)
		Spread    int64  // ms to spread a first reconnect over, 0: not said
		DedupeID  string // which memory of message ids this is
		DedupeMs  int64  // how far back it reaches
		Subs      map[string]Answer
	}

	// Subbed answers a Sub. Unasked, with an error: access was withdrawn.
	Subbed struct {
		Stream string
		Answer Answer
	}

	// Event is one event. An empty Stream is the session's own.
	Event struct {
		Seq    uint64
		Stream string
		Data   Raw
		// Text is the whole frame as received, nil for a frame that was built.
		// Towards a server without a version it holds the payload: see Rest.
		Text Raw
	}

	// Events are consecutive events numbered From, From+1, …
	Events struct {
		From   uint64
		Stream string
		Data   []Raw
	}

	// Snapshot is the state of a stream at Seq.
	Snapshot struct {
		HasSeq bool // false only from a server without a version
		Seq    uint64
		Epoch  string
		Stream string
		State  Raw
	}

	// Reset says that there is a gap. With Snapshot a snapshot follows.
	Reset struct {
		Stream   string
		Seq      uint64
		Epoch    string
		First    uint64
		Snapshot bool
		Reason   string
	}

	// Ack says that a message was accepted, and perhaps what came of it.
	Ack struct {
		ID     string
		Result Raw
	}

	// Nack says that a message was refused: for good, or with Retry for now.
	Nack struct {
		ID       string
		Code     string
		Reason   string
		HasRetry bool
		Retry    int64 // ms
		// Outcome is for the bus only, where a hub answers in place of the
		// server: "not-sent" or "unknown".
		Outcome string
	}

	// Heartbeat is sent when nothing else was for the announced interval.
	Heartbeat struct {
		Next   int64 // bytes of the large frame that follows, 0: none
		Stream string
		Stale  int64 // ms since the node last heard from its store
	}

	// Pong answers Ping.
	Pong struct{ N uint64 }

	// Drain says that this node goes away.
	Drain struct{ Within int64 } // ms

	// Unknown is a frame of a type this version does not know. Ignore it.
	Unknown struct{ T string }
)

// Type values.
const (
	tResume    = "resume"
	tSub       = "sub"
	tUnsub     = "unsub"
	tMsg       = "msg"
	tPing      = "ping"
	tWelcome   = "welcome"
	tSubbed    = "subbed"
	tEvent     = "event"
	tEvents    = "events"
	tSnapshot  = "snapshot"
	tReset     = "reset"
	tAck       = "ack"
	tNack      = "nack"
	tHeartbeat = "hb"
	tPong      = "pong"
	tDrain     = "drain"
)
