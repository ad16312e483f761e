// Command wasm is the hub: the program that a page's shim (web/longwire.js)
// loads to hold the connection. It joins [github.com/longwire/longwire/reconnect],
// which decides, to the tabs, which own positions and unsettled messages, and to
// the browser through [github.com/longwire/longwire/jsbridge].
//
// It is built with GOOS=js GOARCH=wasm. It hands its exports to the function
// longwireReady that the shim puts into the global object before it starts it:
//
//	version                       the version of the build
//	open(options, deliver) hub    a hub of its own; deliver(text) gets its frames
//	hub.frame(text)               a frame from the tab
//	hub.close()                   frees the hub; nothing is delivered any more
//
// Frames in both directions are those of [github.com/longwire/longwire/wire], one
// JSON object a call.
package main
