//go:build unix

package budget

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// LockFile locks an open file without waiting, or returns ErrInUse. The system releases the lock
// when the process ends.
func LockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// syncDir syncs the names in a folder to disk.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
