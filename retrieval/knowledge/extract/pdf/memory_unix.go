//go:build unix

package pdf

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
	"golang.org/x/sys/unix"
)

// A memory is the memory of one worker. Its maximum is reserved at once, outside of Go's heap, and
// the system provides pages as they are used: it grows without being copied, and is freed when the
// worker ends rather than by garbage collection.
type memory struct {
	most     int64 // limit in bytes
	reserved []byte
	size     atomic.Int64
	refused  atomic.Bool // growing beyond the limit was refused
}

// Allocate implements experimental.MemoryAllocator. most does not exceed the limit of the runtime.
func (m *memory) Allocate(_, most uint64) experimental.LinearMemory {
	reserved, err := unix.Mmap(-1, 0, int(min(int64(most), m.most)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_ANON|unix.MAP_PRIVATE)
	if err == nil {
		m.reserved = reserved
	}
	return m // without memory, Reallocate fails
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

// Free implements experimental.LinearMemory. It does nothing: the runtime calls it in the middle
// of an interrupted call, and a later access would crash the process.
func (m *memory) Free() {}

// release frees the memory. Nobody may use the worker any more.
func (m *memory) release() {
	if m.reserved != nil {
		_ = unix.Munmap(m.reserved)
		m.reserved = nil
	}
}

// used returns the current size in bytes.
func (m *memory) used() int64 { return m.size.Load() }
