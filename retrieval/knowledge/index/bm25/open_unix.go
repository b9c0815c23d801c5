//go:build unix

package bm25

import (
	"fmt"
	"math"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

func open(f *os.File, size int64) (*MappedFile, error) {
	if size == 0 {
		return &MappedFile{}, nil // an empty file cannot be mapped
	}
	if size > math.MaxInt {
		return nil, fmt.Errorf("map %s: %d bytes are too many", f.Name(), size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map %s: %w", f.Name(), err)
	}
	m := &MappedFile{data: data}
	runtime.AddCleanup(m, func(data []byte) { _ = unix.Munmap(data) }, data)
	return m, nil
}
