package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/longwire/longwire/wire"
)

// What is wrong with a payload of the application's.
var (
	errNotJSON = errors.New("not valid JSON")
	errNotUTF8 = errors.New("not valid UTF-8")
	errTooDeep = errors.New("nests too deep")
)

// Bounds of texts that go into frames: a client refuses longer ones.
const (
	maxCodeText   = wire.MaxReason
	maxReasonText = 1024
)

// shallow is a number of brackets that cannot make a payload too deep, wherever in
// a message it is put.
const shallow = 256

// checkPayload reports whether a client will take data as part of a message: a
// single bad one would cost every follower its connection.
func checkPayload(data []byte) error {
	if !utf8.Valid(data) {
		return errNotUTF8
	}
	if !json.Valid(data) {
		return errNotJSON
	}
	brackets := 0
	for _, b := range data {
		if b == '[' || b == '{' {
			brackets++
		}
	}
	if brackets <= shallow {
		return nil
	}
	// As deep as it can get: in a batch, in an array of frames.
	message := []byte(`[` + string(wire.Events{From: 1, Data: []wire.Raw{data}}.Append(nil)) + `]`)
	if _, err := wire.Decode(message); err != nil {
		return fmt.Errorf("%w: %w", errTooDeep, err)
	}
	return nil
}

// clip cuts text to at most n bytes of valid UTF-8.
func clip(text string, n int) string {
	return strings.ToValidUTF8(text[:min(n, len(text))], "")
}
