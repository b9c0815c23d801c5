package transporttest

import "syscall"

// A handle is what the system knows a socket by.
type handle = syscall.Handle
