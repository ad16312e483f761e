// Package faults breaks a running server on request, from outside of it.
//
// A [Control] stands between the TCP listener, the HTTP server and the WebSocket
// handler: it wraps the connections that are accepted, it goes in front of the
// handlers, and its own handler serves the verbs under /faults/. The server that
// is tested is the real one and knows nothing of it.
//
// It is meant for tests and demonstrations on the own machine: whoever reaches
// the verbs can stop the service, so they answer loopback peers only, and no
// page of another site.
package faults
