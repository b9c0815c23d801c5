//go:build unix

package knowledgetest

import (
	"syscall"
	"testing"
	"time"
)

// CPU is what this process has taken of the processors. Unlike the time of a clock it does
// not grow while other programs run.
func CPU(tb testing.TB) time.Duration {
	tb.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
