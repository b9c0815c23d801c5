//go:build !linux && !darwin

package tcp

// unacknowledged cannot be known on this system.
func unacknowledged(uintptr) (n int, known bool) { return 0, false }
