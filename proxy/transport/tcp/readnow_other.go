//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package tcp

// CanReadNow reports whether ReadNow works on this system.
const CanReadNow = false

// ReadNow reads nothing.
func ReadNow(uintptr, []byte) (n int, wouldBlock bool, err error) { return 0, false, nil }
