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
	return pending(fd, unix.POLLRDHUP) != 0
}

// reusable reports whether an idle connection is open and silent: bytes that
// nobody asked for make it as useless as a FIN.
func reusable(raw syscall.RawConn) bool {
	var events int16
	err := raw.Control(func(fd uintptr) { events = pending(fd, unix.POLLRDHUP|unix.POLLIN) })
	return err == nil && events == 0
}

// pending returns those of events, and of error and hang-up, that stand now.
func pending(fd uintptr, events int16) int16 {
	fds := [1]unix.PollFd{{Fd: int32(fd), Events: events}} //nolint:gosec // a file descriptor is an int
	for {
		n, err := unix.Poll(fds[:], 0)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return unix.POLLERR
		case n == 0:
			return 0
		}
		return fds[0].Revents
	}
}
