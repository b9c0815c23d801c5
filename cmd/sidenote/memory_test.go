package main

import (
	"math"
	"runtime"
	"runtime/debug"
	"testing"
)

// What lives is compared with what may be used.
func TestMemoryIsFull(t *testing.T) {
	runtime.GC() // there is something that lives
	for limit, want := range map[uint64]bool{1 << 10: true, 1 << 50: false} {
		m := memory{limit: limit}
		if m.look(); m.full.Load() != want {
			t.Errorf("limit %d: full %v", limit, !want)
		}
	}
}

// A limit that was set holds.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(1 << 40)
	defer debug.SetMemoryLimit(before)
	if got := memoryLimit(); got != 1<<40 {
		t.Errorf("limit %d", got)
	}
	if limitMemory(); memoryLimit() != 1<<40 {
		t.Errorf("the container changed it to %d", memoryLimit())
	}
	debug.SetMemoryLimit(math.MaxInt64)
	if got := memoryLimit(); got != 0 {
		t.Errorf("limit %d where there is none", got)
	}
}
