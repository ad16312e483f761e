package redisstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/longwire/longwire/stream"
)

// One piece of a stream.
const (
	pieceEntries = 500
	pieceBytes   = 256 << 10
)

// piece is what the script read returns.
type piece struct {
	position        // of the head
	now      int64  // ms
	fence    string // of the session, "" if there is none
	entries  []entry
}

// entry is what is stored under one id. Fields of a foreign one can be missing.
type entry struct {
	id         string
	data       string
	at         int64
	tag, prev  string
	incomplete bool
}

// reading collects what is read of a stream.
type reading struct {
	log     []stream.Entry // without a hole
	head    position       // of the last of them
	corrupt int
}

func isAway(err error) bool {
	_, ok := errors.AsType[*awayError](err)
	return ok
}

// readOnce brings the mirror to where the stream is.
func (f *feed) readOnce() error {
	select {
	case f.s.reads <- struct{}{}:
		defer func() { <-f.s.reads }()
	case <-f.s.ctx.Done():
		return &awayError{cause: errClosed}
	}
	ctx, cancel := f.s.bounded(f.s.ctx)
	defer cancel()
	f.mu.Lock()
	head := f.head
	f.mu.Unlock()

	first, err := f.piece(ctx, head, "", pieceEntries)
	if err != nil {
		return err
	}
	f.heed(first.fence)
	if first.epoch != head.epoch {
		return f.rebuild(ctx, first)
	}
	r := &reading{head: head}
	goesOn, err := f.collect(ctx, r, first)
	if err != nil {
		return err
	}
	if goesOn && r.corrupt == 0 && uint64(len(r.log)) == r.head.seq-head.seq {
		return f.extend(r)
	}
	return f.rebuild(ctx, nil)
}

// extend appends what follows the mirror.
func (f *feed) extend(r *reading) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Now()
	log := f.log.Load()
	for _, e := range r.log {
		if _, err := log.Append(e.Data); err != nil {
			return fmt.Errorf("redisstore: %s: %w", f.name, err)
		}
	}
	f.head = r.head
	return nil
}

// rebuild reads the stream as far back as it reaches, into a new log. The first piece
// may have been read already.
func (f *feed) rebuild(ctx context.Context, first *piece) (err error) {
	for ; ; first = nil {
		if first == nil {
			if first, err = f.piece(ctx, position{}, "", pieceEntries); err != nil {
				return err
			}
		}
		r := &reading{head: position{epoch: first.epoch}}
		if len(first.entries) > 0 { // whatever was trimmed before it
			if seq, ok := first.entries[0].seq(); ok && seq > 0 {
				r.head.seq = seq - 1
			}
		}
		ok, err := f.collect(ctx, r, first)
		if err != nil {
			return err
		}
		if ok {
			return f.replace(r)
		}
	}
}

func (f *feed) replace(r *reading) error {
	log, err := stream.Restore(stream.State{Epoch: r.head.epoch, Head: r.head.seq, Entries: r.log}, 0, f.s.so.Log)
	if err != nil {
		return fmt.Errorf("redisstore: %s: %w", f.name, err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.looked = time.Now()
	f.head = r.head
	if r.corrupt > 0 {
		f.s.corrupt.Add(uint64(r.corrupt)) //nolint:gosec // not negative
		if !f.reported {
			f.s.log.Error("longwire: entries of a stream cannot be read; there is a gap", "stream", f.name, "entries", r.corrupt)
		}
	}
	f.reported = r.corrupt > 0
	old := f.log.Swap(log)
	if old == nil {
		return nil
	}
	if old.Epoch() != log.Epoch() {
		f.s.renumbered.Add(1)
	}
	old.Void() // after its readers can find the new one
	return nil
}

// collect reads on until the head. It reports false when numbering has started anew
// meanwhile.
func (f *feed) collect(ctx context.Context, r *reading, p *piece) (ok bool, err error) {
	for {
		for i, e := range p.entries {
			r.add(e, p.now, f.s.so.Log.Bytes, i == 0)
		}
		n := len(p.entries)
		if n == 0 || r.head.seq >= p.seq {
			break
		}
		if p, err = f.piece(ctx, position{epoch: r.head.epoch}, p.entries[n-1].id, pieceEntries); err != nil {
			return false, err
		}
		if p.epoch != r.head.epoch {
			return false, nil
		}
	}
	if r.head.seq != p.seq { // the newest are missing, or foreign ones are beyond them
		if r.head.seq > p.seq {
			r.corrupt++
		}
		r.log = nil
	}
	r.head = p.position
	return true, nil
}

// add takes an entry. After one that cannot be read, or is not the next one, the log
// begins anew, so that positions before it are not covered.
func (r *reading) add(e entry, now, bytes int64, first bool) {
	seq, ok := e.seq()
	if !ok || e.incomplete || int64(len(e.data)) > bytes || !isSound(e.data) {
		r.corrupt++
		r.log = nil
		r.head.seq = max(r.head.seq, seq)
		return
	}
	if seq != r.head.seq+1 {
		if !first { // what comes first may follow upon what was trimmed meanwhile
			r.corrupt++
		}
		r.log = nil
	}
	age := max(time.Duration(now-e.at)*time.Millisecond, 0)
	if n := len(r.log); n > 0 {
		age = min(age, r.log[n-1].Age) // Redis's clock was set back
	}
	r.log = append(r.log, stream.Entry{Data: []byte(e.data), Age: age})
	r.head.seq, r.head.tag = seq, e.tag
}

// seq returns the number that an id stands for; ok is false for a foreign id, of which
// it is the part that orders it.
func (e entry) seq() (seq uint64, ok bool) {
	number, rest := e.id, ""
	for i := range len(e.id) {
		if e.id[i] == '-' {
			number, rest = e.id[:i], e.id[i:]
			break
		}
	}
	seq, err := strconv.ParseUint(number, 10, 64)
	if err != nil || seq > stream.MaxSeq {
		return 0, false
	}
	return seq, rest == "-0" && seq > 0
}

// piece reads once, behind a position or behind an id.
func (f *feed) piece(ctx context.Context, after position, id string, entries int) (*piece, error) {
	reply, err := f.s.call(ctx, f.p, scriptRead, f.readKeys(), func(a attempt) ([]any, error) {
		return f.readArgs(a.gen, after, id, entries), nil
	})
	if err != nil {
		return nil, err
	}
	p, ok := parsePiece(reply)
	if !ok {
		return nil, fmt.Errorf("redisstore: %s: the script read returned %v", f.name, reply)
	}
	return p, nil
}

func (f *feed) readKeys() []string {
	keys := []string{f.p.genKey(), f.p.metaKey(f.name), f.p.entriesKey(f.name)}
	if isOwn(f.name) {
		keys = append(keys, f.p.sessionKey(f.name[1:]))
	}
	return keys
}

// readArgs are those behind the generation.
func (f *feed) readArgs(gen uint64, after position, id string, entries int) []any {
	return []any{
		epoch(gen), after.epoch, after.seq, after.tag, entries, pieceBytes, f.s.life(f.name).Milliseconds(), id,
	}
}

// life is how long what is known of a stream outlives its last use.
func (s *store) life(name string) time.Duration {
	if isOwn(name) {
		return max(s.so.StreamLife, s.so.SessionLife, s.so.Log.Age)
	}
	return max(s.so.StreamLife, s.so.Log.Age)
}

const valuesOfEntry = 5

func parsePiece(reply any) (p *piece, ok bool) {
	list, ok := reply.([]any)
	if !ok || len(list) != 6 {
		return nil, false
	}
	var text [5]string
	for i := range text {
		if text[i], ok = list[i].(string); !ok {
			return nil, false
		}
	}
	p = &piece{position: position{epoch: text[0], tag: text[2]}, fence: text[4]}
	var errs [2]error
	p.seq, errs[0] = strconv.ParseUint(text[1], 10, 64)
	p.now, errs[1] = strconv.ParseInt(text[3], 10, 64)
	entries, ok := list[5].([]any)
	if errors.Join(errs[:]...) != nil || !ok || len(entries)%valuesOfEntry != 0 {
		return nil, false
	}
	p.entries = make([]entry, 0, len(entries)/valuesOfEntry)
	for values := range slices.Chunk(entries, valuesOfEntry) {
		p.entries = append(p.entries, parseEntry(values))
	}
	return p, true
}

func parseEntry(values []any) (e entry) {
	text := func(i int) string {
		s, ok := values[i].(string)
		if !ok {
			e.incomplete = true
		}
		return s
	}
	e = entry{id: text(0)}
	e.data, e.tag, e.prev = text(1), text(3), text(4)
	at, err := strconv.ParseInt(text(2), 10, 64)
	if err != nil {
		e.incomplete = true
	}
	e.at = at
	return e
}
