//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package transport

import "syscall"

// Without a way to look at a socket and leave it as it is, a client's leaving
// shows at the next write, and idle connections are not used again: sending on
// one that was closed would cost the request.
const canWatch = false

func hungUp(uintptr) bool { return false }

func reusable(syscall.RawConn) bool { return false }
