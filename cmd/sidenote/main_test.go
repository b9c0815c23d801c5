package main

import (
	"runtime/debug"
	"testing"
)

// A memory limit that is already set stays.
func TestMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(1 << 40)
	defer debug.SetMemoryLimit(before)
	if limitMemory(); debug.SetMemoryLimit(-1) != 1<<40 {
		t.Errorf("the container changed it to %d", debug.SetMemoryLimit(-1))
	}
}
