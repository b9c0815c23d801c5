//go:build (linux && race) || darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import (
	"errors"
	"os"
	"syscall"
)

// canReadNow tells that readNow works on this system.
const canReadNow = true

// readNow reads what has arrived, without waiting. wouldBlock tells that nothing has.
func readNow(fd uintptr, p []byte) (n int, wouldBlock bool, err error) {
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
