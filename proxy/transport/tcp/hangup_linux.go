package tcp

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// CanWatch reports whether hang-ups can be noticed on this system.
const CanWatch = true

// HungUp reports whether the peer of fd has closed its side. Unlike PeekHungUp it sees a FIN behind
// unread bytes.
func HungUp(fd uintptr) bool {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}} //nolint:gosec // a file descriptor is an int
	for {
		n, err := unix.Poll(fds[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return n != 0 // -1, an error, counts as gone
		}
	}
}

// Reusable reports whether an idle connection can be reused: it is open and the upstream has sent
// nothing on it. It may read one byte if something was sent.
func Reusable(raw syscall.RawConn) bool {
	var silent bool
	err := raw.Control(func(fd uintptr) {
		var b [1]byte
		_, silent, _ = ReadNow(fd, b[:])
	})
	return err == nil && silent
}
