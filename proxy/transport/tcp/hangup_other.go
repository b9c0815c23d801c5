//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package tcp

import "syscall"

// On these systems we know no way to check a socket without reading from it. So a
// client that left is noticed at the next write to it, and idle connections are not
// used again: a request that is sent on a closed one would be lost.
const CanWatch = false

// HungUp cannot be known on this system.
func HungUp(uintptr) bool { return false }

// Reusable cannot be known on this system, so no connection is.
func Reusable(syscall.RawConn) bool { return false }
