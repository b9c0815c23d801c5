//go:build !linux && !darwin && !dragonfly && !freebsd && !netbsd && !openbsd

package transport

const canReadNow = false

func readNow(uintptr, []byte) (n int, wouldBlock bool, err error) { return 0, false, nil }
