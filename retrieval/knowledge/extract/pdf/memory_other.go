//go:build !unix

package pdf

import (
	"sync/atomic"

	"github.com/tetratelabs/wazero/experimental"
)

// A memory is the memory of one worker, on Go's heap.
type memory struct {
	most    int64 // limit in bytes
	bytes   []byte
	size    atomic.Int64
	refused atomic.Bool // growing beyond the limit was refused
}

// Allocate implements experimental.MemoryAllocator.
func (m *memory) Allocate(start, _ uint64) experimental.LinearMemory {
	m.bytes = make([]byte, 0, min(int64(start), m.most))
	return m
}

// Reallocate implements experimental.LinearMemory.
func (m *memory) Reallocate(size uint64) []byte {
	if size > uint64(m.most) {
		m.refused.Store(true)
		return nil
	}
	if more := int(size) - len(m.bytes); more > 0 { //nolint:gosec // it is at most maxMemory
		m.bytes = append(m.bytes, make([]byte, more)...)
	}
	m.size.Store(int64(size)) //nolint:gosec // it is at most maxMemory
	return m.bytes
}

// Free implements experimental.LinearMemory.
func (m *memory) Free() {}

// release frees the memory. Nobody may use the worker any more.
func (m *memory) release() { m.bytes = nil }

// used returns the current size in bytes.
func (m *memory) used() int64 { return m.size.Load() }
