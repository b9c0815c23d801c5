//go:build !linux

package knowledgetest

import (
	"testing"
	"time"
)

// threadCPU returns the processor time of the process while work runs, which other goroutines add
// to.
func threadCPU(tb testing.TB, work func()) time.Duration {
	tb.Helper()
	start := CPU(tb)
	work()
	return CPU(tb) - start
}
