//go:build race

package transport

import (
	"errors"
	"os"
	"syscall"
)

// writeNow writes what goes without waiting of the first of pieces. none tells that
// nothing does. Unlike a raw system call, this one tells the race detector that what
// came before it has happened before what a reader of the same bytes does.
func writeNow(fd uintptr, pieces [][]byte) (n int, none bool, err error) {
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
