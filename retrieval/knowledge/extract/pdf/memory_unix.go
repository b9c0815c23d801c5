//go:build unix

package pdf

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// A memory is that of one worker. The whole of it is reserved at once, outside of Go's
// heap, and the system gives pages as they are used: it grows without being copied, and is
// given back when the worker ends rather than when garbage is collected.
type memory struct {
	most     int64 // bytes that it may have
	reserved []byte
	size     atomic.Int64
	refused  atomic.Bool // it would have become larger
}

// Allocate implements experimental.MemoryAllocator. most is within the limit of the runtime.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	reserved, err := unix.Mmap(-1, 0, int(min(int64(most), m.most)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		m.reserved = reserved
	}
	return m // without memory its Reallocate fails
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(len(m.reserved)) {
		m.refused.Store(true)
		return nil
	}
	m.size.Store(int64(size)) //nolint:gosec // it is at most maxMemory
	return m.reserved[:size]
}

// Free implements experimental.LinearMemory. It does nothing: the runtime calls it in the
// middle of a call that is interrupted, and whoever read a byte after that would end the
// process.
func (m *memory) Free() {}

// release gives the memory back, once nobody uses the worker any more.
func (m *memory) release() {
	if m.reserved != nil {
		_ = unix.Munmap(m.reserved)
		m.reserved = nil
	}
}

// used returns the present size in bytes.
func (m *memory) used() int64 { return m.size.Load() }
