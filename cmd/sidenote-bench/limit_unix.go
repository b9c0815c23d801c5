//go:build unix

package main

import "golang.org/x/sys/unix"

// raiseDescriptors raises the limit of open files beyond the hard limit, if that is allowed. Go
// has already raised it to the hard limit.
func raiseDescriptors() {
	const want = 64 << 10
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) == nil && limit.Cur < want {
		_ = unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: want, Max: max(want, limit.Max)})
	}
}

// descriptors returns how many files this process may have open.
func descriptors() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return 1024
	}
	return int(min(limit.Cur, 1<<20)) //nolint:gosec // bounded
}
