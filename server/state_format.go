package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"github.com/longwire/longwire/stream"
)

// The file is a sequence of JSON records, one a line: a header, then streams, each
// followed by its events, sessions, each followed by the events of its own stream
// and, of an anonymous one, its messages, and users, each followed by their
// messages. The last line, which has no other form than endLine's, holds the number
// of the lines before it and their sum. Durations are in nanoseconds.

const stateVersion = 1

// stateRecord is one line before the last. Exactly one member is set.
type stateRecord struct {
	Header  *headerRecord  `json:"header,omitempty"`
	Stream  *streamRecord  `json:"stream,omitempty"`
	Session *sessionRecord `json:"session,omitempty"`
	User    *userRecord    `json:"user,omitempty"`
	Event   *eventRecord   `json:"event,omitempty"`
	Message *messageRecord `json:"message,omitempty"`
}

type headerRecord struct {
	Version int           `json:"version"`
	Run     string        `json:"run"`
	Saved   time.Time     `json:"saved"`
	Dedupe  string        `json:"dedupe"` // Server.dedupeID
	Window  time.Duration `json:"window"` // Options.DedupeWindow
}

type logRecord struct {
	Epoch string `json:"epoch"`
	Head  uint64 `json:"head"`
}

type streamRecord struct {
	logRecord

	Name string        `json:"name"`
	Idle time.Duration `json:"idle"` // since the last use
}

type sessionRecord struct {
	logRecord

	ID     string        `json:"id"`
	User   string        `json:"user,omitempty"`
	Dedupe string        `json:"dedupe,omitempty"` // of an anonymous one: id of its memory
	Gen    uint64        `json:"gen"`
	Idle   time.Duration `json:"idle"` // without a connection
}

type userRecord struct {
	Name string `json:"name"`
}

type eventRecord struct {
	Age  time.Duration `json:"age"`
	Data []byte        `json:"data"` // not as JSON: the bytes must stay what they are
}

type messageRecord struct {
	ID      string        `json:"id"`
	Age     time.Duration `json:"age"`  // of the answer
	Body    []byte        `json:"body"` // record.body
	Result  []byte        `json:"result,omitempty"`
	Refused *refusal      `json:"refused,omitempty"`
}

type refusal struct {
	Code   string `json:"code"`
	Reason string `json:"reason,omitempty"`
}

// stateWriter writes records, and sums them up.
type stateWriter struct {
	w       io.Writer
	enc     *json.Encoder // into w and sum
	sum     hash.Hash
	records int
	err     error // the first one; nothing is written after it
}

func newStateWriter(w io.Writer) *stateWriter {
	sum := sha256.New()
	return &stateWriter{w: w, enc: json.NewEncoder(io.MultiWriter(w, sum)), sum: sum}
}

func (w *stateWriter) put(r stateRecord) {
	if w.err == nil {
		w.err = w.enc.Encode(r)
		w.records++
	}
}

func (w *stateWriter) events(s stream.State) {
	for _, e := range s.Entries {
		w.put(stateRecord{Event: &eventRecord{Age: e.Age, Data: e.Data}})
	}
}

func (w *stateWriter) messages(all []messageRecord) {
	for i := range all {
		w.put(stateRecord{Message: &all[i]})
	}
}

// end writes the last line.
func (w *stateWriter) end() error {
	if w.err == nil {
		_, w.err = io.WriteString(w.w, endLine(w.records, w.sum.Sum(nil)))
	}
	return w.err
}

func endLine(records int, sum []byte) string {
	return fmt.Sprintf(`{"end":{"records":%d,"sha256":"%x"}}`+"\n", records, sum)
}

// maxEnd is more than the length of any endLine.
const maxEnd = 256

var (
	errNoEnd   = errors.New("it is truncated or damaged: its last line is missing")
	errDamaged = errors.New("it is damaged: its checksum does not match")
)

// readEnd returns the last line.
func readEnd(f io.ReaderAt, size int64) (string, error) {
	tail := make([]byte, min(size, maxEnd))
	if n, err := f.ReadAt(tail, size-int64(len(tail))); n < len(tail) {
		return "", err
	}
	text, ok := bytes.CutSuffix(tail, []byte("\n"))
	i := bytes.LastIndexByte(text, '\n')
	if !ok || i < 0 {
		return "", errNoEnd
	}
	return string(tail[i+1:]), nil
}

// verify checks the sum over the whole file and returns its last line, how long it
// is before that, and how many records these are.
func verify(f io.ReaderAt, size int64) (end string, body int64, records int, err error) {
	end, err = readEnd(f, size)
	if err != nil {
		return "", 0, 0, err
	}
	if _, err = fmt.Sscanf(end, `{"end":{"records":%d,`, &records); err != nil {
		return "", 0, 0, errNoEnd
	}
	body = size - int64(len(end))
	sum := sha256.New()
	if _, err = io.Copy(sum, io.NewSectionReader(f, 0, body)); err != nil {
		return "", 0, 0, err
	}
	if end != endLine(records, sum.Sum(nil)) {
		return "", 0, 0, errDamaged
	}
	return end, body, records, nil
}
