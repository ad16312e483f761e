// Package jsbridge is the browser as Go sees it: a WebSocket, the page's
// lifecycle signals, a login probe, promises, a BroadcastChannel and random bytes.
//
// Everything but this file is built for js/wasm only. Values of the browser come
// in through safejs, so what throws in JavaScript is an error here, of type
// *Error where JavaScript threw or rejected with something.
//
// # Callbacks
//
// JavaScript waits while Go runs a callback, and the Go runtime hands control
// back only when no goroutine can run any more. So a callback must never wait for
// something that the event loop brings (a timer, a promise, a message): it would
// be parked for good. Callbacks that run within JavaScript's call say so; those
// of a [Socket] run on a goroutine of their own and may wait.
//
// A panic in any callback is recovered and handed to the function set by OnPanic,
// because it would end the whole Go program and leave a page that only looks alive.
//
// # What it does not do
//
// It has no policy: nothing here reconnects, retries, times out or elects.
package jsbridge
