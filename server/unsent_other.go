//go:build unix && !linux && !darwin

package server

import "syscall"

func limitUnsent(syscall.RawConn) {}
