//go:build unix

package budget

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the lock of an open file without waiting, or returns ErrInUse. The
// system takes it back when the process ends.
func lockFile(f *os.File) error {
	err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return ErrInUse
	}
	return err
}

// syncDir makes the names in a folder last.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
