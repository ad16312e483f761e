//go:build !unix

package server

import (
	"net"
	"syscall"
)

// direct is for systems whose sockets take no writes that do not wait: each write
// gets a goroutine.
type direct struct{}

func (*direct) init() {}

func (*direct) write(syscall.RawConn, []byte) (int, error) { panic("unreachable") }

func rawConn(net.Conn) syscall.RawConn { return nil }
