//go:build unix

package server

import (
	"net"
	"syscall"
)

// direct makes writes that do not wait for the peer, one at a time.
type direct struct {
	p   []byte
	n   int
	err error
	try func(fd uintptr) bool // bound once: it is called for every write
}

func (d *direct) init() {
	d.try = func(fd uintptr) bool {
		d.n, d.err = writeOnce(int(fd), d.p)
		return true // it has been enough
	}
}

// write returns how much of p the peer has taken.
func (d *direct) write(raw syscall.RawConn, p []byte) (n int, err error) {
	d.p = p
	if err = raw.Write(d.try); err == nil {
		n, err = d.n, d.err
	}
	d.p = nil
	return n, err
}

func writeOnce(fd int, p []byte) (n int, err error) {
	for {
		n, err = syscall.Write(fd, p)
		switch err {
		case nil:
			return n, nil
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, nil
		default:
			return 0, err
		}
	}
}

// rawConn returns what writes that do not wait need, or nil when that would go past
// something: TLS, say.
func rawConn(nc net.Conn) syscall.RawConn {
	switch nc := nc.(type) {
	case *net.TCPConn:
		if raw, err := nc.SyscallConn(); err == nil {
			limitUnsent(raw)
			return raw
		}
	case *net.UnixConn:
		if raw, err := nc.SyscallConn(); err == nil {
			return raw
		}
	}
	return nil
}
