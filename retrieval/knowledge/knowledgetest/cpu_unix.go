//go:build unix

package knowledgetest

import (
	"syscall"
	"testing"
	"time"
)

// CPU returns the processor time of this process. Unlike elapsed time, it does not depend on other
// programs.
func CPU(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
