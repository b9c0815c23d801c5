//go:build unix

package remote

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock locks an open file without waiting.
func lock(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) }
