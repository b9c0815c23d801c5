//go:build !windows

package transporttest

// A handle is the system's identifier of a socket.
type handle = int
