//go:build unix

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// lockFile locks an open file without waiting, or returns errHeld. The lock belongs to the open
// file: a second attempt of the same process fails, too.
func lockFile(f *os.File) error { return flock(f, unix.LOCK_EX) }

// shareFile is lockFile with a shared lock.
func shareFile(f *os.File) error { return flock(f, unix.LOCK_SH) }

func flock(f *os.File, how int) error {
	err := unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return errHeld
	}
	return err
}

func unlockFile(f *os.File) error { return unix.Flock(int(f.Fd()), unix.LOCK_UN) }

// owned reports whether this user owns a file.
func owned(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid()
}

// shared reports whether other users have permissions on a file.
func shared(info fs.FileInfo) bool { return info.Mode().Perm()&0o077 != 0 }

// syncDir makes renames in a folder durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// full wraps system errors for lack of space in ErrFull.
func full(err error) error {
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) || errors.Is(err, unix.EFBIG) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
