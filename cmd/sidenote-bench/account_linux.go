package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf is the CPU time, user and system, that the kernel has accounted to all
// threads of a process so far. The kernel's clock of the process has it to the
// nanosecond, where /proc/PID/stat counts in hundredths of a second.
func cpuOf(pid int) (time.Duration, error) {
	const scheduled = 2                 // CPUCLOCK_SCHED
	clock := int32(^pid<<3) | scheduled //nolint:gosec // pids have 22 bits
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// memoryOf is the memory in bytes that only this process has: heap and stacks,
// without the pages of its binary.
func memoryOf(pid int) (int64, error) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(status, []byte("RssAnon:"))
	field, _, ok := bytes.Cut(rest, []byte("kB"))
	if !ok {
		return 0, fmt.Errorf("memory of process %d: no RssAnon", pid)
	}
	kb, err := strconv.ParseInt(string(bytes.TrimSpace(field)), 10, 64)
	return kb << 10, err
}
