//go:build sidenote_plain

package tcp

import (
	"errors"
	"os"
	"syscall"
)

// writeNow writes as much of the first piece as the kernel takes without waiting. wouldBlock
// reports that it takes nothing.
func writeNow(fd uintptr, pieces [][]byte) (n int, wouldBlock bool, err error) {
	for {
		n, err = syscall.Write(int(fd), pieces[0])
		if err == nil {
			return n, false, nil
		}
		if !errors.Is(err, syscall.EINTR) {
			return 0, errors.Is(err, syscall.EAGAIN), os.NewSyscallError("write", err)
		}
	}
}
