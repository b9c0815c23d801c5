//go:build linux || darwin || openbsd

package transport

import (
	"errors"

	"golang.org/x/sys/unix"
)

// writeNow writes what goes without waiting of pieces, one after another: nothing if
// it fails. There must not be more of them than these systems take, 1024.
func writeNow(fd uintptr, pieces [][]byte) int {
	for {
		n, err := unix.Writev(int(fd), pieces)
		if !errors.Is(err, unix.EINTR) {
			return max(n, 0)
		}
	}
}
