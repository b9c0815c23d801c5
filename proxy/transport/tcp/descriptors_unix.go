//go:build unix

package tcp

import (
	"math"

	"golang.org/x/sys/unix"
)

// DescriptorLimit returns how many files and connections this process may have open.
func DescriptorLimit() int {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		return math.MaxInt32
	}
	return int(min(uint64(limit.Cur), math.MaxInt32)) //nolint:gosec,unconvert // fits; some systems have it signed
}
