// Package net stands in for net in the wasm. The browser half of the WebSocket
// library returns this error, and has a view of its connection as a Conn that
// nobody asks it for.
package net

import (
	"errors"
	"time"
)

// ErrClosed is returned by what uses a closed connection.
var ErrClosed = errors.New("use of closed network connection")

// Addr is an end of a connection.
type Addr interface {
	Network() string
	String() string
}

// Conn is a stream of bytes.
type Conn interface {
	Read(b []byte) (n int, err error)
	Write(b []byte) (n int, err error)
	Close() error
	LocalAddr() Addr
	RemoteAddr() Addr
	SetDeadline(t time.Time) error
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}
