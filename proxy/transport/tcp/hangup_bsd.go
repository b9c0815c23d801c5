//go:build darwin || dragonfly || freebsd || netbsd || openbsd

package tcp

import "syscall"

// CanWatch reports whether hang-ups can be noticed on this system.
const CanWatch = true

// HungUp reports whether the peer of a socket has closed its side.
func HungUp(fd uintptr) bool { return PeekHungUp(fd) }

// Reusable reports whether an idle connection is open and nothing has arrived on it.
func Reusable(raw syscall.RawConn) bool { return PeekReusable(raw) }
