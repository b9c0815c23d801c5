//go:build !linux && !darwin

package transport

// unacknowledged is not known here.
func unacknowledged(uintptr) (n int, known bool) { return 0, false }
