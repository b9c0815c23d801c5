//go:build unix

package extract_test

import (
	"syscall"
	"testing"
	"time"
)

// processorTime is what this process has taken of the processors. Unlike the time of a
// clock it does not grow while other programs run.
func processorTime(t *testing.T) time.Duration {
	t.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
