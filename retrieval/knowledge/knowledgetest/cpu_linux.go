package knowledgetest

import (
	"runtime"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// threadCPU returns the processor time that work takes in its own goroutine.
func threadCPU(tb testing.TB, work func()) time.Duration {
	tb.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	now := func() int64 {
		var t unix.Timespec
		if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &t); err != nil {
			tb.Fatal(err)
		}
		return t.Nano()
	}
	start := now()
	work()
	return time.Duration(now() - start)
}
