//go:build !race

package transport

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// canAsk tells that readNow works.
const canAsk = true

// readNow reads what is there. none tells that there is nothing yet.
func readNow(fd uintptr, p []byte) (n int, none bool, err error) {
	return call(unix.SYS_RECVFROM, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p), 0) //nolint:gosec // the kernel's way to name memory
}

// gathered is how many pieces one system call takes.
const gathered = 16

// writeNow writes what goes without waiting of pieces, one after another. none tells
// that nothing does.
func writeNow(fd uintptr, pieces [][]byte) (n int, none bool, err error) {
	if len(pieces) == 1 {
		p := pieces[0]
		return call(unix.SYS_SENDTO, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p), syscall.MSG_NOSIGNAL) //nolint:gosec // as above
	}
	var list [gathered]syscall.Iovec
	pieces = pieces[:min(len(pieces), gathered)]
	for i, p := range pieces {
		list[i].Base = unsafe.SliceData(p)
		list[i].SetLen(len(p))
	}
	return call(unix.SYS_WRITEV, fd, unsafe.Pointer(&list), len(pieces), 0) //nolint:gosec // as above
}

// call reads or writes on a socket that does not block. Calls that are for sockets
// only take less of a way than those for all kinds of files.
func call(trap, fd uintptr, memory unsafe.Pointer, size, flags int) (n int, none bool, err error) {
	for {
		r, _, errno := syscall.RawSyscall6(trap, fd, uintptr(memory), uintptr(size), uintptr(flags), 0, 0) //nolint:gosec // sizes are not negative
		switch errno {
		case 0:
			return int(r), false, nil //nolint:gosec // at most size
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			name := "write"
			if trap == unix.SYS_RECVFROM {
				name = "read"
			}
			return 0, false, os.NewSyscallError(name, errno)
		}
	}
}
