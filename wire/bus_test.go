package wire_test

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/longwire/longwire/wire"
)

// busText is one entry of testdata/bus.json, which the tests of the shim read too.
type busText struct {
	Name     string
	From     string // "tab" or "hub"
	Envelope bool   // the text is a whole envelope, else a frame
	Text     string
	Error    string // why it cannot be read; "": it reads back
}

func busTexts(tb testing.TB) []busText {
	tb.Helper()
	file, err := os.ReadFile("testdata/bus.json")
	if err != nil {
		tb.Fatal(err)
	}
	var texts []busText
	d := json.NewDecoder(bytes.NewReader(file))
	d.DisallowUnknownFields()
	if err := d.Decode(&texts); err != nil {
		tb.Fatal(err)
	}
	return texts
}

// reread decodes a text of the bus and writes it again.
func (b busText) reread() (string, error) {
	if b.Envelope {
		e, err := wire.DecodeEnvelope([]byte(b.Text))
		if err != nil {
			return "", err
		}
		return string(e.Append(nil)), nil
	}
	decode := wire.DecodeFromHub
	if b.From == "tab" {
		decode = wire.DecodeFromTab
	}
	f, err := decode([]byte(b.Text))
	if err != nil {
		return "", err
	}
	return string(f.Append(nil)), nil
}

func TestTextsOfTheBus(t *testing.T) {
	names := make(map[string]bool)
	for _, b := range busTexts(t) {
		if names[b.Name] || b.From != "tab" && b.From != "hub" {
			t.Errorf("%s: the name is used twice, or it is from nobody: %q", b.Name, b.From)
		}
		names[b.Name] = true
		got, err := b.reread()
		switch {
		case b.Error != "":
			if err == nil || err.Error() != b.Error {
				t.Errorf("%s: %s\n got %v\nwant %s", b.Name, b.Text, err, b.Error)
			}
		case err != nil || got != b.Text:
			t.Errorf("%s: read and written again\n got %s, %v\nwant %s", b.Name, got, err, b.Text)
		}
	}
}

func TestFramesOfTheBusMeanNothingOnTheWire(t *testing.T) {
	for _, f := range []wire.Frame{
		wire.HubState{},
		wire.Here{},
		wire.Need{},
		wire.Have{},
		wire.Kick{},
		wire.Start{},
		wire.Stop{},
		wire.Reauthorize{},
		wire.Cancel{},
		wire.Problem{},
		wire.Take{},
		wire.Yield{},
		wire.Bye{},
	} {
		if got := decodeOne(t, string(f.Append(nil))); !reflect.DeepEqual(got, wire.Unknown{T: f.Type()}) {
			t.Errorf("Decode of %s = %#v", f.Type(), got)
		}
	}
}

func TestTheHigherHubOutranks(t *testing.T) {
	for _, c := range []struct {
		e    wire.Envelope
		want bool
	}{
		{wire.Envelope{Gen: 7, Hub: "b"}, false},
		{wire.Envelope{Gen: 7, Hub: "a"}, false},
		{wire.Envelope{Gen: 7, Hub: "ba"}, true},
		{wire.Envelope{Gen: 8, Hub: "a"}, true},
		{wire.Envelope{Gen: 6, Hub: "z"}, false},
		{wire.Envelope{Gen: 9, Tab: "z"}, false}, // a tab has no rank
	} {
		if got := c.e.Outranks(7, "b"); got != c.want {
			t.Errorf("%+v outranks (7, b): %t", c.e, got)
		}
	}
}

// FuzzBus checks on any input that what is accepted is valid JSON, and that what was
// read reads the same after it was written again.
func FuzzBus(f *testing.F) {
	for _, b := range busTexts(f) {
		f.Add([]byte(b.Text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, b := range []busText{{From: "tab"}, {From: "hub"}, {Envelope: true}} {
			b.Text = string(text)
			once, err := b.reread()
			if err != nil {
				if !strings.HasPrefix(err.Error(), "wire: ") {
					t.Fatalf("%q: %v", text, err)
				}
				continue
			}
			if !json.Valid(text) || !json.Valid([]byte(once)) {
				t.Fatalf("accepted what is not JSON: %q, or wrote what is not: %q", text, once)
			}
			b.Text = once
			if twice, err := b.reread(); err != nil || twice != once {
				t.Fatalf("%q was read as %q, then %q, %v", text, once, twice, err)
			}
		}
	})
}
