//go:build (linux && sidenote_plain) || darwin || dragonfly || freebsd || netbsd || openbsd

package tcp

import (
	"errors"
	"os"
	"syscall"
)

// CanReadNow reports whether ReadNow works on this system.
const CanReadNow = true

// ReadNow reads what has arrived, without waiting. wouldBlock reports that nothing has.
func ReadNow(fd uintptr, p []byte) (n int, wouldBlock bool, err error) {
	for {
		n, err = syscall.Read(int(fd), p)
		if err == nil {
			return n, false, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return 0, errors.Is(err, syscall.EAGAIN), os.NewSyscallError("read", err)
		}
	}
}
