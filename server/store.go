package server

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"time"

	"github.com/longwire/longwire/stream"
)

// Store keeps what outlives a connection: the streams, the sessions and the answers
// to messages. Options.Store names one that several nodes share; without it a server
// has one of its own, in memory. All methods are safe for concurrent use.
//
// What a call that has failed was to change may have been changed all the same, if
// the store cannot be asked any more; each method says what that means.
type Store interface {
	// Follow returns a named stream as this node sees it. A stream that nobody knows
	// is made, with an epoch that was never used before. Every Follow needs a Close of
	// the feed. The error is ErrTooManyStreams, or says why the store does not answer.
	Follow(ctx context.Context, name string) (Feed, error)

	// Publish appends an event to a named stream, which is made if nobody knows it,
	// and returns the event's number. data is one JSON value and is copied. An error
	// means that nothing was published, except ErrUncertain.
	Publish(ctx context.Context, name string, data []byte) (seq uint64, err error)
	// PublishTo appends an event to the own stream of each session of user, and
	// returns how many those are. Errors are as for Publish.
	PublishTo(ctx context.Context, user string, data []byte) (sessions int, err error)
	// PublishToSession appends an event to the own stream of a session, and returns
	// the event's number. The error can be ErrNoSession; else it is as for Publish.
	PublishToSession(ctx context.Context, session string, data []byte) (seq uint64, err error)

	// Knows reports whether the session is there and belongs to user.
	Knows(ctx context.Context, session, user string) (bool, error)
	// Attach makes a connection the newest one of a session. The error can be a
	// *NotNewestError; any other says why the store does not answer, and the session
	// then keeps its connection, or has lost it to one that never came.
	Attach(ctx context.Context, a Attachment) (Session, error)

	// Stale returns for how long the store has not answered, and 0 while it does.
	Stale() time.Duration
	// Stats returns what the store holds on this node, and what it met.
	Stats() StoreStats
	// Close ends the store's work on this node and waits for it. No other call is
	// made after it, except those of Stats.
	Close() error
}

// Feed is a stream as one node sees it.
type Feed interface {
	// Log returns the log to read from; what is published anywhere arrives there. When
	// numbering has started anew there is another log, and after that the one before is
	// voided.
	Log() *stream.Log
	// Sync returns once Log holds what the store held when it was called. It is for
	// who knows of a position that Log does not.
	Sync(ctx context.Context) error
	// Close says that the feed is not used any more. It does not wait.
	Close()
}

// Attachment is what a connection wants of a session.
type Attachment struct {
	Session string // to take over if it is there and belongs to User, else a new one is made
	User    string // "" for an anonymous one
	Gen     uint64 // fencing number, 0: the next one
	// Fenced is called when a newer connection has taken the session over, on whatever
	// node, with its fencing number: at most once, maybe before Attach has returned. It
	// must not block.
	Fenced func(gen uint64)
}

// Session is a session as one connection has it.
type Session interface {
	ID() string       // 128 random bits
	Gen() uint64      // of this connection
	Own() Feed        // the session's own stream; do not close it
	DedupeID() string // names the memory of message ids: another one when it was lost

	// Admit looks a message up and, when it is new, notes that it is running: then it
	// is to be settled. sum stands for its body. Of a message that runs already it
	// waits for the answer; when the node that runs it is gone the answer is a refusal
	// with wire.NackUnknown. It is not admitted when there is an error.
	Admit(ctx context.Context, id string, sum [16]byte) (Finding, error)
	// Settle notes the answer to a message that was admitted and returns the one that
	// counts, which is another one when the message was given up meanwhile. A refusal
	// with Retry is not remembered. It works on when the store does not answer.
	Settle(id string, a Answer) Answer

	// Detach says that the connection has ended. It does not wait.
	Detach()
}

// Finding is what a store says of a message that arrives.
type Finding struct {
	Kind   FindingKind
	Answer Answer        // of Answered
	Wait   time.Duration // of Full: when to try again
}

// FindingKind is what is known of a message that arrives.
type FindingKind int

// The kinds of finding.
const (
	Admitted   FindingKind = iota // new: run it and settle it
	Answered                      // its answer is known
	Conflict                      // its id was used with another body
	Full                          // there is no room to remember it
	Superseded                    // the session has a newer connection, which is sent it again
)

// Answer is what a message comes to: an ack with its result, or a nack.
type Answer struct {
	Result  json.RawMessage
	Refusal *Refusal // nil: accepted
}

// NotNewestError is the error of an Attach with a Gen that is not above the session's.
type NotNewestError struct {
	Gen uint64 // the session's
}

func (*NotNewestError) Error() string { return "server: the session has a newer connection" }

var (
	// ErrTooManyStreams is the error of a Follow that would make one stream too many.
	ErrTooManyStreams = errors.New("server: too many streams")
	// ErrUncertain is the error of a Publish… whose event may or may not be there,
	// because the store went away before it answered and what came after has hidden it.
	ErrUncertain = errors.New("server: the event may have been published or not")

	errStoreSilent = errors.New("server: the store does not answer")
)

// StoreOptions is what a store is to keep, and for how long: the fields of Options,
// with their defaults. A shared store should be given the same on every node.
type StoreOptions struct {
	Log          stream.Limits
	StreamLife   time.Duration
	SessionLife  time.Duration
	DedupeWindow time.Duration
	DedupeLimit  int
	Streams      int
	UserSessions int
	IdleSessions int
	Logger       *slog.Logger
}

// StoreStats is what a store holds on this node, and what it met since it was opened.
type StoreStats struct {
	Streams  int // named streams
	Sessions int // sessions, with a connection or without

	Renumbered uint64 // streams here whose numbering started anew
	Holes      uint64 // times that events did not arrive by themselves and were read instead
	Corrupt    uint64 // entries that could not be read
}
