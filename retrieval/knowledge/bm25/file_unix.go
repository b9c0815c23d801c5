//go:build unix

package bm25

import (
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func openFile(f *os.File) (*Segment, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	size := info.Size()
	if size < headerSize || size > math.MaxInt || !info.Mode().IsRegular() {
		return nil, damaged("header")
	}
	image, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, os.NewSyscallError("mmap", err)
	}
	s, err := Open(image)
	if err != nil {
		_ = unix.Munmap(image)
		return nil, err
	}
	runtime.AddCleanup(s, func(image []byte) { _ = unix.Munmap(image) }, image)
	return s, nil
}
