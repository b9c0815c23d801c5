package transporttest

import "syscall"

// A handle is the system's identifier of a socket.
type handle = syscall.Handle
