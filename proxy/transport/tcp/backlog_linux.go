package tcp

import "golang.org/x/sys/unix"

// unacknowledged returns how many written bytes the peer's system has not acknowledged.
func unacknowledged(fd uintptr) (n int, known bool) {
	n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ)
	return n, err == nil
}
