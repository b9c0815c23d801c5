//go:build !sidenote_plain

package tcp

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// CanReadNow reports whether ReadNow works on this system.
const CanReadNow = true

// ReadNow reads what has arrived, without waiting. wouldBlock reports that nothing has.
func ReadNow(fd uintptr, p []byte) (n int, wouldBlock bool, err error) {
	n, wouldBlock, err = call(unix.SYS_RECVFROM, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p), 0) //nolint:gosec // the kernel's way to name memory
	raceRead(fd, p[:n])
	return n, wouldBlock, err
}

// maxIovecs is the number of pieces per system call, usually enough for a whole request, in which
// each source is one piece.
const maxIovecs = 32

// writeNow writes as much of pieces, in order, as the kernel takes without waiting. wouldBlock
// reports that it takes nothing.
func writeNow(fd uintptr, pieces [][]byte) (n int, wouldBlock bool, err error) {
	raceWrite(fd, pieces)
	if len(pieces) == 1 {
		p := pieces[0]
		return call(unix.SYS_SENDTO, fd, unsafe.Pointer(unsafe.SliceData(p)), len(p), syscall.MSG_NOSIGNAL) //nolint:gosec // as above
	}
	var list [maxIovecs]syscall.Iovec
	pieces = pieces[:min(len(pieces), maxIovecs)]
	for i, p := range pieces {
		list[i].Base = unsafe.SliceData(p)
		list[i].SetLen(len(p))
	}
	return call(unix.SYS_WRITEV, fd, unsafe.Pointer(&list), len(pieces), 0) //nolint:gosec // as above
}

// call reads from or writes to a non-blocking socket. System calls for sockets do less work in the
// kernel than those for all kinds of files.
func call(trap, fd uintptr, memory unsafe.Pointer, size, flags int) (n int, wouldBlock bool, err error) {
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
