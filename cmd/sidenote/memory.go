package main

import (
	"math"
	"runtime/debug"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// goShare is how much of a container's memory Go may use, in percent. The rest is for memory
// that Go does not count.
const goShare = 90

// limitMemory lets Go use a share of the container's memory, unless GOMEMLIMIT is set, so
// that memory is collected and requests are refused before the kernel ends the process.
func limitMemory() {
	if debug.SetMemoryLimit(-1) < math.MaxInt64 {
		return
	}
	container, err := memlimit.FromCgroup()
	if err != nil || container > math.MaxInt64/goShare {
		return // no limit, or a number that stands for none
	}
	debug.SetMemoryLimit(int64(container / 100 * goShare)) //nolint:gosec // it is less than the largest
}
