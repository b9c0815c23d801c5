//go:build !race

package transport

import (
	"os"
	"syscall"
	"unsafe"
)

// canAsk tells that readNow works.
const canAsk = true

// readNow reads what is there. none tells that there is nothing yet.
func readNow(fd uintptr, p []byte) (n int, none bool, err error) {
	return call(syscall.SYS_READ, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p)) //nolint:gosec // the kernel's way to name memory
}

// gathered is how many pieces one system call takes.
const gathered = 16

// writeNow writes what goes without waiting of pieces, one after another. none tells
// that nothing does.
func writeNow(fd uintptr, pieces [][]byte) (n int, none bool, err error) {
	if len(pieces) == 1 {
		p := pieces[0]
		return call(syscall.SYS_WRITE, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p)) //nolint:gosec // as above
	}
	var list [gathered]syscall.Iovec
	pieces = pieces[:min(len(pieces), gathered)]
	for i, p := range pieces {
		list[i].Base = unsafe.SliceData(p)
		list[i].SetLen(len(p))
	}
	return call(syscall.SYS_WRITEV, fd, unsafe.Pointer(&list), len(pieces)) //nolint:gosec // as above
}

// call reads or writes on a descriptor that does not block.
func call(trap, fd uintptr, memory unsafe.Pointer, size int) (n int, none bool, err error) {
	for {
		r, _, errno := syscall.RawSyscall(trap, fd, uintptr(memory), uintptr(size)) //nolint:gosec // sizes are not negative
		switch errno {
		case 0:
			return int(r), false, nil //nolint:gosec // at most size
		case syscall.EINTR:
		case syscall.EAGAIN:
			return 0, true, nil
		default:
			name := "write"
			if trap == syscall.SYS_READ {
				name = "read"
			}
			return 0, false, os.NewSyscallError(name, errno)
		}
	}
}
