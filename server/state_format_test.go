package server

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/longwire/longwire/stream"
	"github.com/longwire/longwire/wire"
)

// fullStore has a little of everything that is saved, a message that still runs
// included.
func fullStore(tb testing.TB) *memoryStore {
	tb.Helper()
	s := emptyStore(tb)
	s.state = &stateFile{run: "run"}
	for _, data := range []string{`1`, `{"a": "<\u2028>"}`} {
		if _, err := s.Publish(context.Background(), "s", []byte(data)); err != nil {
			tb.Fatal(err)
		}
	}
	for gen, user := range []string{"ann", "", "ann"} {
		sess, err := s.Attach(tb.Context(), Attachment{User: user, Gen: uint64(gen + 1)})
		if err != nil {
			tb.Fatal(err)
		}
		if _, err = sess.Own().Log().Append([]byte(`"own"`)); err != nil {
			tb.Fatal(err)
		}
		for id, a := range map[string]*Answer{
			"ack":    {},
			"result": {Result: json.RawMessage(`[1, 2]`)},
			"nack":   {Refusal: &Refusal{Code: "no", Reason: "never"}},
			"busy":   {Refusal: &Refusal{Code: "busy", Retry: time.Second}},
			"runs":   nil,
		} {
			if user == "ann" && gen > 0 {
				break // the answers are the user's
			}
			if f, err := sess.Admit(tb.Context(), id, sumOne); err != nil || f.Kind != Admitted {
				tb.Fatalf("message %s: %+v, %v", id, f, err)
			}
			if a != nil {
				sess.Settle(id, *a)
			}
		}
		sess.Detach()
	}
	return s
}

// sumOne and sumTwo stand for the bodies of messages.
var sumOne, sumTwo = [16]byte{1}, [16]byte{2}

func emptyStore(tb testing.TB) *memoryStore {
	tb.Helper()
	o, err := Options{Logger: slog.New(slog.DiscardHandler)}.prepare()
	if err != nil {
		tb.Fatal(err)
	}
	s := newMemoryStore(o.store())
	tb.Cleanup(func() { _ = s.Close() })
	return s
}

func saved(tb testing.TB, s *memoryStore) []byte {
	tb.Helper()
	var file bytes.Buffer
	if err := s.writeState(&file); err != nil {
		tb.Fatal(err)
	}
	return file.Bytes()
}

func load(s *memoryStore, file []byte) (*loadedState, error) {
	return s.readState(bytes.NewReader(file), int64(len(file)), "run", time.Now())
}

func TestStateComesBack(t *testing.T) {
	first, second := fullStore(t), emptyStore(t)
	before := first.streams.all["s"].log.State()
	loaded, err := load(second, saved(t, first))
	if err != nil {
		t.Fatal(err)
	}
	second.install(loaded)
	if second.dedupeID != first.dedupeID || second.streams.count() != 1 || len(second.sessions.all) != 3 {
		t.Errorf("%d streams, %d sessions", second.streams.count(), len(second.sessions.all))
	}
	for id, sess := range first.sessions.all {
		again := second.sessions.all[id]
		if again == nil || again.gen != sess.gen || again.user != sess.user || again.answers.id != sess.answers.id {
			t.Fatalf("session %+v came back as %+v", sess, again)
		}
		if !again.log.Covers(sess.log.Epoch(), 0) || again.log.Head() != 1 {
			t.Errorf("own stream: head %d", again.log.Head())
		}
		for id, want := range map[string]Answer{
			"ack":    {},
			"result": {Result: json.RawMessage(`[1, 2]`)},
			"nack":   {Refusal: &Refusal{Code: "no", Reason: "never"}},
			"runs":   {Refusal: &Refusal{Code: wire.NackUnknown, Reason: "the server was restarted while it ran"}},
		} {
			r, _ := again.answers.admit(id, sumOne)
			if r == nil {
				t.Fatalf("message %s would run again", id)
			}
			<-r.done
			if !reflect.DeepEqual(r.answer, want) {
				t.Errorf("message %s: answer %+v, want %+v", id, r.answer, want)
			}
			if _, f := again.answers.admit(id, sumTwo); f.Kind != Conflict {
				t.Errorf("message %s: another body is not told from it", id)
			}
		}
		if again.answers.byID["busy"] != nil {
			t.Error("a refusal for now was remembered")
		}
	}
	after := second.streams.all["s"].log.State()
	if after.Epoch != before.Epoch || after.Head != 2 || !slices.EqualFunc(before.Entries, after.Entries,
		func(a, b stream.Entry) bool { return bytes.Equal(a.Data, b.Data) && b.Age >= a.Age }) {
		t.Errorf("stream %+v came back as %+v", before, after)
	}
}

func TestEveryDamageIsRefused(t *testing.T) {
	s := emptyStore(t)
	file := saved(t, fullStore(t))
	if _, err := load(s, file); err != nil {
		t.Fatal(err)
	}
	for i := range file {
		if _, err := load(s, file[:i]); err == nil {
			t.Fatalf("truncated at %d of %d bytes: was taken", i, len(file))
		}
		for _, mask := range []byte{1, 0x20, 0x80} {
			damaged := bytes.Clone(file)
			damaged[i] ^= mask
			if _, err := load(s, damaged); err == nil {
				t.Fatalf("byte %d of %d changed by %#x, %q: was taken", i, len(file), mask, file[max(0, i-20):i+1])
			}
		}
	}
	for name, damaged := range map[string][]byte{
		"a line more":  append(bytes.Clone(file), "\n"...),
		"a file twice": append(bytes.Clone(file), file...),
		"a byte first": append([]byte(" "), file...),
		"only an end":  []byte(endLine(0, sha256.New().Sum(nil))),
	} {
		if _, err := load(s, damaged); err == nil {
			t.Errorf("%s: was taken", name)
		}
	}
}

// complete is a file with that body.
func complete(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append(bytes.Clone(body), endLine(bytes.Count(body, []byte("\n")), sum[:])...)
}

func TestStateThatMakesNoSenseIsRefused(t *testing.T) {
	s := emptyStore(t)
	header, _, _ := strings.Cut(string(saved(t, fullStore(t))), "\n")
	header += "\n"
	beforeDedupe, _, _ := strings.Cut(header, `"dedupe"`)
	body := `"body":"AAAAAAAAAAAAAAAAAAAAAA=="`
	const ann, aStream = `{"user":{"name":"ann"}}` + "\n", `{"stream":{"name":"s","epoch":"e","head":1}}` + "\n"
	for want, text := range map[string]string{
		"record 1: is not a header":                      aStream,
		"record 1: version 2: this program reads 1":      strings.Replace(header, `"version":1`, `"version":2`, 1),
		"dedupe \"\", window 10m0s: out of bounds":       beforeDedupe + `"window":600000000000}}` + "\n",
		"record 2: is of no known kind":                  header + `{"other":1}` + "\n",
		"record 2: unexpected EOF":                       header + `{` + "\n",
		"record 2: does not belong to the one before it": header + `{"event":{}}` + "\n",
		"record 3: does not belong to the one before it": header + aStream + `{"message":{"id":"1",` + body + `}}` + "\n",
		`stream "s s", idle for 0s: out of bounds`:       header + `{"stream":{"name":"s s","epoch":"e"}}` + "\n",
		`stream "s", idle for -1ns: out of bounds`:       header + `{"stream":{"name":"s","epoch":"e","idle":-1}}` + "\n",
		"stream s: stream: restore: epoch":               header + `{"stream":{"name":"s"}}` + "\n",
		"stream s: data: not valid JSON":                 header + aStream + `{"event":{"data":"ew=="}}` + "\n",
		"stream s: stream: restore: 2 entries":           header + aStream + strings.Repeat(`{"event":{"data":"MQ=="}}`+"\n", 2),
		"stream s: a second time":                        header + aStream + aStream,
		`session "" of user "ann"`:                       header + `{"session":{"user":"ann","epoch":"e"}}` + "\n",
		`session "1" of user "", dedupe ""`:              header + `{"session":{"id":"1","epoch":"e"}}` + "\n",
		`session "1" of user "ann", dedupe "x"`:          header + `{"session":{"id":"1","user":"ann","dedupe":"x","epoch":"e"}}` + "\n",
		`session "1": a second time`:                     header + strings.Repeat(`{"session":{"id":"1","user":"ann","epoch":"e"}}`+"\n", 2),
		`gen 9007199254740992`:                           header + `{"session":{"id":"1","user":"ann","gen":9007199254740992,"epoch":"e"}}` + "\n",
		`user "": out of bounds`:                         header + `{"user":{}}` + "\n",
		`user "ann": out of bounds, or a second time`:    header + ann + ann,
		`message "": out of bounds, or a second time`:    header + ann + `{"message":{}}` + "\n",
		`message "1": out of bounds, or a second time`:   header + ann + strings.Repeat(`{"message":{"id":"1",`+body+`}}`+"\n", 2),
		`message "1": body: 0 bytes`:                     header + ann + `{"message":{"id":"1"}}` + "\n",
		`message "1": age -1ns`:                          header + ann + `{"message":{"id":"1","age":-1,` + body + `}}` + "\n",
		`message "1": result: not valid JSON`:            header + ann + `{"message":{"id":"1","result":"ew==",` + body + `}}` + "\n",
	} {
		if _, err := load(s, complete([]byte(text))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v\n want %s", err, want)
		}
	}
	if _, err := load(s, []byte(strings.Replace(string(complete([]byte(header))), `"run":"run"`, `"run":"new"`, 1))); !errors.Is(err, errDamaged) {
		t.Errorf("another run under the same sum: %v", err)
	}
	more := []byte(header)
	sum := sha256.Sum256(more)
	if _, err := load(s, append(more, endLine(2, sum[:])...)); err == nil || !strings.Contains(err.Error(), "1 records and should have 2") {
		t.Errorf("a wrong number of records: %v", err)
	}
}

// Another process may have taken the file and saved its own in that place.
func TestClaimKnowsTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state")
	file := saved(t, fullStore(t))
	end, _, _, err := verify(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]error{string(file): nil, string(saved(t, fullStore(t))): errTaken, "": errTaken} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if refused, err := claim(path, end); !errors.Is(refused, want) || err != nil {
			t.Errorf("claim = %v, %v; want %v", refused, err, want)
		}
	}
	if refused, err := claim(path, end); !errors.Is(refused, errTaken) || err != nil {
		t.Errorf("claim of no file = %v, %v", refused, err)
	}
}

// FuzzState gives the loader files whose sum is right, whatever is in them.
func FuzzState(f *testing.F) {
	file := saved(f, fullStore(f))
	f.Add(file[:bytes.LastIndex(file, []byte(`{"end"`))])
	f.Add([]byte(`{"header":{"version":1,"run":"run","saved":"2026-01-01T00:00:00Z","dedupe":"x","window":1}}` + "\n"))
	f.Fuzz(func(t *testing.T, body []byte) {
		s := emptyStore(t)
		loaded, err := load(s, complete(body))
		if err != nil {
			return
		}
		s.install(loaded)
		s.state = &stateFile{run: "run"}
		s.seal()
		// What was taken can be saved and taken again.
		if _, err := load(emptyStore(t), saved(t, s)); err != nil {
			t.Errorf("%v\nof %s", err, body)
		}
	})
}
