//go:build unix

package main

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// raiseDescriptors lets this process and those that it starts have as many open
// files as may be: beyond the hard limit too where that is allowed.
func raiseDescriptors() error {
	const want = 64 << 10
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	if limit.Cur >= want {
		return nil
	}
	if unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: max(want, limit.Max)}) == nil {
		return nil
	}
	limit.Cur = limit.Max
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return fmt.Errorf("limit of open files: %w", err)
	}
	return nil
}

// descriptors is how many files this process may have open.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20)) //nolint:gosec // bounded
}
