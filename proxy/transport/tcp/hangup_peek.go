//go:build linux || darwin || dragonfly || freebsd || netbsd || openbsd

package tcp

import (
	"errors"
	"syscall"

	"golang.org/x/sys/unix"
)

// PeekHungUp reports whether the peer of fd has closed its side, using calls that every Unix has.
// It sees a reset at once, but a FIN behind unread bytes only when they have been read.
func PeekHungUp(fd uintptr) bool {
	n, err := peek(fd)
	if err != nil || n == 0 {
		return !errors.Is(err, unix.EAGAIN)
	}
	broken, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
	return err != nil || broken != 0
}

// PeekReusable reports whether an idle connection can be reused: it is open and the upstream has
// sent nothing on it.
func PeekReusable(raw syscall.RawConn) bool {
	var silent bool
	err := raw.Control(func(fd uintptr) {
		_, err := peek(fd)
		silent = errors.Is(err, unix.EAGAIN)
	})
	return err == nil && silent
}

func peek(fd uintptr) (n int, err error) {
	var b [1]byte
	for {
		n, _, err = unix.Recvfrom(int(fd), b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
