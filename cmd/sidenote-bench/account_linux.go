package main

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// cpuOf returns the CPU time, user and system, of all threads of a process so far. The kernel's
// CPU clock of the process is exact to the nanosecond, whereas /proc/PID/stat counts in hundredths
// of a second.
func cpuOf(pid int) (time.Duration, error) {
	const scheduled = 2                 // CPUCLOCK_SCHED
	clock := int32(^pid<<3) | scheduled //nolint:gosec // pids have 22 bits
	var t unix.Timespec
	if err := unix.ClockGettime(clock, &t); err != nil {
		return 0, fmt.Errorf("CPU clock of process %d: %w", pid, err)
	}
	return time.Duration(t.Nano()), nil
}

// memoryOf returns the private memory of a process in bytes: heap and stacks, without the pages of
// its binary.
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
