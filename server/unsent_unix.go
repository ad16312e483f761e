//go:build linux || darwin

package server

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// maxUnsent is about how much the kernel takes in for a peer beyond what is on its way
// to it. Otherwise the send buffer of one that has stopped reading grows to megabytes,
// and events get old in there that are better held in the log.
const maxUnsent = 32 << 10

// limitUnsent sets it, where the socket is of a kind that can have it.
func limitUnsent(raw syscall.RawConn) {
	_ = raw.Control(func(fd uintptr) { // without it all works as well
		_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_NOTSENT_LOWAT, maxUnsent) //nolint:gosec // a descriptor
	})
}
