//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package transport

import "syscall"

// On these systems we know no way to check a socket without reading from it. So a
// client that left is noticed at the next write to it, and idle connections are not
// used again: a request that is sent on a closed one would be lost.
const canWatch = false

func hungUp(uintptr) bool { return false }

func reusable(syscall.RawConn) bool { return false }
