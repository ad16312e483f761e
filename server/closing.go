package server

import (
	"strconv"

	"github.com/longwire/longwire/wire"
)

// closing says how a connection is to be closed. It is an error where it comes of
// what the client did.
type closing struct {
	code   int
	reason string // of which 123 bytes are sent
	denial denial // how it is counted when there was no welcome yet
}

func (c *closing) Error() string { return strconv.Itoa(c.code) + " " + c.reason }

func badFrame(reason string) error { return &closing{wire.CloseBadRequest, reason, deniedBadHello} }
