// Package wire holds the frames that both ends of a Longwire connection speak,
// their limits and the close codes.
//
// A frame is one JSON object in a WebSocket text message; a message may also be
// an array of frames. [Decode] reads the envelope of each without reflection and
// leaves payloads (data, body, state, result) as the text they arrived in. It
// checks that the whole message is valid JSON, so a payload can be embedded in
// another frame or handed to a JSON parser without a second check. Unknown
// fields are ignored, an unknown frame type decodes as [Unknown].
//
// The package imports nothing outside the standard library, and nothing of that
// which would weigh on the wasm build (no encoding/json, no fmt).
package wire
