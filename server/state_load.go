package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// loadedState is a file that was read to its end and is consistent.
type loadedState struct {
	end      string // its last line, which no other file has
	header   headerRecord
	downtime time.Duration // by the wall clock, not negative
	streams  []loadedStream
	sessions []loadedSession
	memories map[string][]*record // of users
}

type loadedStream struct {
	streamRecord

	log *stream.Log
}

type loadedSession struct {
	sessionRecord

	log      *stream.Log
	messages []*record // of an anonymous one
}

// maxAhead is by how much a file may seem to be of the future.
const maxAhead = time.Minute

// readState reads the file that the run has written. It changes nothing: either all
// of the file is returned, or an error that says why it is not to be used.
func (m *memoryStore) readState(f io.ReaderAt, size int64, run string, now time.Time) (*loadedState, error) {
	end, body, records, err := verify(f, size)
	if err != nil {
		return nil, err
	}
	l := &stateReader{
		m:     m,
		dec:   json.NewDecoder(io.NewSectionReader(f, 0, body)),
		state: loadedState{end: end, memories: make(map[string][]*record)},
	}
	if err = l.header(run, now); err == nil {
		err = l.all()
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("record %d: %w", l.n, err)
	case l.n != records:
		return nil, fmt.Errorf("it has %d records and should have %d", l.n, records)
	}
	return &l.state, nil
}

// stateReader reads records one after the other.
type stateReader struct {
	m     *memoryStore
	dec   *json.Decoder
	rec   stateRecord // the record that is looked at, empty at the end
	n     int         // its number, from 1 on
	state loadedState
}

// next looks at the next record.
func (l *stateReader) next() error {
	l.rec = stateRecord{}
	err := l.dec.Decode(&l.rec)
	if errors.Is(err, io.EOF) {
		return nil
	}
	l.n++
	if err == nil && l.rec == (stateRecord{}) {
		err = errors.New("is of no known kind")
	}
	return err
}

func (l *stateReader) header(run string, now time.Time) error {
	if err := l.next(); err != nil {
		return err
	}
	h, o := l.rec.Header, &l.m.opts
	if h == nil {
		return errors.New("is not a header")
	}
	if h.Version != stateVersion {
		return fmt.Errorf("version %d: this program reads %d", h.Version, stateVersion)
	}
	if h.Run != run {
		return errOtherRun
	}
	if h.Dedupe == "" || len(h.Dedupe) > wire.MaxSession || h.Window <= 0 {
		return fmt.Errorf("dedupe %q, window %v: out of bounds", h.Dedupe, h.Window)
	}
	age, life := now.Sub(h.Saved), max(o.Log.Age, o.DedupeWindow, o.SessionLife)
	if age > life {
		return fmt.Errorf("it is too old: saved %v ago, of use for %v", age, life)
	}
	if age < -maxAhead {
		return fmt.Errorf("it was saved at %v, which is in the future", h.Saved)
	}
	l.state.header, l.state.downtime = *h, max(age, 0)
	return l.next()
}

func (l *stateReader) all() error {
	streams, sessions := make(map[string]bool), make(map[string]bool)
	for l.rec != (stateRecord{}) {
		var err error
		switch r := l.rec; {
		case r.Stream != nil:
			if streams[r.Stream.Name] {
				return fmt.Errorf("stream %s: a second time", r.Stream.Name)
			}
			streams[r.Stream.Name] = true
			err = l.stream(*r.Stream)
		case r.Session != nil:
			if sessions[r.Session.ID] {
				return fmt.Errorf("session %q: a second time", r.Session.ID)
			}
			sessions[r.Session.ID] = true
			err = l.session(*r.Session)
		case r.User != nil:
			err = l.user(r.User.Name)
		default:
			err = errors.New("does not belong to the one before it")
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (l *stateReader) stream(r streamRecord) error {
	if !wire.ValidStream(r.Name) || r.Idle < 0 {
		return fmt.Errorf("stream %q, idle for %v: out of bounds", r.Name, r.Idle)
	}
	log, err := l.log(r.logRecord)
	if err != nil {
		return fmt.Errorf("stream %s: %w", r.Name, err)
	}
	l.state.streams = append(l.state.streams, loadedStream{r, log})
	return nil
}

func (l *stateReader) session(r sessionRecord) error {
	anonymous := r.User == ""
	if r.ID == "" || len(r.ID) > wire.MaxSession || !validUser(r.User) || r.Gen > wire.MaxSeq || r.Idle < 0 ||
		anonymous != (r.Dedupe != "") || len(r.Dedupe) > wire.MaxSession {
		return fmt.Errorf("session %q of user %q, dedupe %q, gen %d, idle for %v: out of bounds", r.ID, r.User, r.Dedupe, r.Gen, r.Idle)
	}
	log, err := l.log(r.logRecord)
	var messages []*record
	if err == nil && anonymous {
		messages, err = l.messages()
	}
	if err != nil {
		return fmt.Errorf("session %q: %w", r.ID, err)
	}
	l.state.sessions = append(l.state.sessions, loadedSession{r, log, messages})
	return nil
}

func (l *stateReader) user(name string) error {
	if name == "" || !validUser(name) || l.state.memories[name] != nil {
		return fmt.Errorf("user %q: out of bounds, or a second time", name)
	}
	err := l.next()
	if err == nil {
		l.state.memories[name], err = l.messages()
	}
	if err != nil {
		return fmt.Errorf("user %q: %w", name, err)
	}
	return nil
}

// validUser is what Authenticate may return.
func validUser(name string) bool { return len(name) <= wire.MaxUser && utf8.ValidString(name) }

// log reads the events behind the record that is looked at, and makes their log.
func (l *stateReader) log(r logRecord) (*stream.Log, error) {
	if len(r.Epoch) > wire.MaxEpoch {
		return nil, fmt.Errorf("epoch %q: too long", r.Epoch)
	}
	state := stream.State{Epoch: r.Epoch, Head: r.Head}
	err := l.next()
	for ; err == nil && l.rec.Event != nil; err = l.next() {
		e := l.rec.Event
		if err = checkPayload(e.Data); err != nil {
			return nil, fmt.Errorf("data: %w", err)
		}
		state.Entries = append(state.Entries, stream.Entry{Data: e.Data, Age: e.Age})
	}
	if err != nil {
		return nil, err
	}
	return stream.Restore(state, l.state.downtime, l.m.opts.Log)
}

// answered is what record.done is of a message that was answered by an earlier run.
var answered = func() chan struct{} {
	done := make(chan struct{})
	close(done)
	return done
}()

// messages reads the messages from the record that is looked at on.
//
// The downtime does not age them: a wall clock that was set forward in between
// would make the server forget what clients may still send again.
func (l *stateReader) messages() ([]*record, error) {
	all, ids := []*record{}, make(map[string]bool)
	var last time.Duration
	for l.rec.Message != nil {
		m := *l.rec.Message
		switch {
		case !wire.ValidID(m.ID) || ids[m.ID]:
			return nil, fmt.Errorf("message %q: out of bounds, or a second time", m.ID)
		case len(m.Body) != len(record{}.body):
			return nil, fmt.Errorf("message %q: body: %d bytes", m.ID, len(m.Body))
		case m.Age < 0 || len(all) > 0 && m.Age > last:
			return nil, fmt.Errorf("message %q: age %v: negative, or above that of the one before", m.ID, m.Age)
		}
		r := &record{id: m.ID, body: [16]byte(m.Body), done: answered, at: l.m.clock() - m.Age}
		if m.Refused != nil {
			r.answer.Refusal = presentable(&Refusal{Code: m.Refused.Code, Reason: m.Refused.Reason})
		} else if m.Result != nil {
			if err := checkPayload(m.Result); err != nil {
				return nil, fmt.Errorf("message %q: result: %w", m.ID, err)
			}
			r.answer.Result = m.Result
		}
		all, last = append(all, r), m.Age
		ids[m.ID] = true
		if err := l.next(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
