package transport

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

const canWatch = true

// hungUp reports whether the peer of fd has closed its side. Unlike a peek it
// sees a FIN that stands behind unread bytes.
func hungUp(fd uintptr) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a file descriptor is an int
	for {
		n, err := unix.Poll(fds[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return n != 0 // an error is -1
		}
	}
}

// reusable reports whether an idle connection is open and silent: bytes that
// nobody asked for make it as useless as a FIN. It may read one of them.
func reusable(raw syscall.RawConn) bool {
	var silent bool
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, silent, _ = readNow(fd, b[:])
	})
	return err == nil && silent
}
