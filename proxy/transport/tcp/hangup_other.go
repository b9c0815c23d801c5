//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package tcp

import "syscall"

// CanWatch is false because these systems have no known way to check a socket without reading from
// it. So a client that left is noticed at the next write, and idle connections are not reused: a
// request sent on a closed one would be lost.
const CanWatch = false

// HungUp is not supported on this system.
func HungUp(uintptr) bool { return false }

// Reusable returns false, because this system cannot check connections.
func Reusable(syscall.RawConn) bool { return false }
