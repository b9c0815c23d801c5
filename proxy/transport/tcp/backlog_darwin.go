package tcp

import "golang.org/x/sys/unix"

// unacknowledged returns how many written bytes the peer's system has not acknowledged.
func unacknowledged(fd uintptr) (n int, known bool) {
	n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_NWRITE)
	return n, err == nil
}
