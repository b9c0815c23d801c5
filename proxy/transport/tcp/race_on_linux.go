//go:build race

package tcp

import (
	"runtime"
	"syscall"
	"unsafe"
)

// raceRead tells the race detector about a read that it cannot see: p was written, and everything
// before the peer's write happens before what follows. The second effect comes from an ordinary
// system call, here one that reads nothing.
func raceRead(fd uintptr, p []byte) {
	if len(p) > 0 {
		runtime.RaceWriteRange(unsafe.Pointer(unsafe.SliceData(p)), len(p)) //nolint:gosec // the detector's way to name memory
		_, _ = syscall.Read(int(fd), nil)                                   //nolint:gosec // a descriptor is an int
	}
}

// raceWrite tells the race detector about a write: pieces are read, and everything before happens
// before what follows the peer's read.
func raceWrite(fd uintptr, pieces [][]byte) {
	for _, p := range pieces {
		if len(p) > 0 {
			runtime.RaceReadRange(unsafe.Pointer(unsafe.SliceData(p)), len(p)) //nolint:gosec // as above
		}
	}
	_, _ = syscall.Write(int(fd), nil) //nolint:gosec // as above
}
