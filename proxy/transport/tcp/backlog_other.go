//go:build !linux && !darwin

package tcp

// unacknowledged is not supported on this system.
func unacknowledged(uintptr) (n int, known bool) { return 0, false }
