// Package http stands in for net/http in the wasm. The browser half of the
// WebSocket library names these four and calls none of them, but the linker cannot
// drop what net/http initialises, crypto above all: a quarter of the download.
package http

// StatusSwitchingProtocols is 101 (RFC 9110 section 15.2.2).
const StatusSwitchingProtocols = 101

type (
	// Response of the handshake, which a browser keeps to itself.
	Response struct{ StatusCode int }
	// Request is only named.
	Request struct{}
	// ResponseWriter is only named.
	ResponseWriter interface{}
)
