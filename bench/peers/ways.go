package main

// The servers.
const (
	hostLongwire   = "longwire"
	hostPlain      = "plain"
	hostCentrifuge = "centrifuge"
	hostSocketIO   = "socket.io"
)

// way is how events can be followed: a client library, and the server that it needs.
type way struct {
	name string // of the library, and of the module in page/ways
	host string
}

// longwire is what the others are held against.
const longwire = "longwire"

var ways = []way{
	{longwire, hostLongwire},
	{"partysocket", hostPlain},
	{"reconnecting-websocket", hostPlain},
	{"socket.io", hostSocketIO},
	{"centrifuge", hostCentrifuge},
}
