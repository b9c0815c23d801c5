//go:build !windows

package transporttest

// A handle is what the system knows a socket by.
type handle = int
