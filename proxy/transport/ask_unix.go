//go:build (linux && race) || darwin || dragonfly || freebsd || netbsd || openbsd

package transport

import (
	"errors"
	"os"
	"syscall"
)

// canAsk tells that readNow works.
const canAsk = true

// readNow reads what is there. none tells that there is nothing yet.
func readNow(fd uintptr, p []byte) (n int, none bool, err error) {
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
