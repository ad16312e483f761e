package main

// The servers.
const (
	hostLongwire   = "longwire"
	hostBrisk      = "longwire-2s" // for a fleet of this size, see longwire.go
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

// brisk is measured where the server's Spread decides.
var brisk = way{"longwire, Spread 2 s", hostBrisk}

var ways = []way{
	{longwire, hostLongwire},
	{"partysocket", hostPlain},
	{"reconnecting-websocket", hostPlain},
	{"socket.io", hostSocketIO},
	{"centrifuge", hostCentrifuge},
}
