package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/windows"
)

// lockFile locks an open file without waiting, or returns errHeld. It locks a byte far beyond the
// text, so that others can read the text.
func lockFile(f *os.File) error { return lock(f, windows.LOCKFILE_EXCLUSIVE_LOCK) }

// shareFile is lockFile with a shared lock.
func shareFile(f *os.File) error { return lock(f, 0) }

func lock(f *os.File, how uint32) error {
	err := windows.LockFileEx(windows.Handle(f.Fd()), how|windows.LOCKFILE_FAIL_IMMEDIATELY, 0, 1, 0, lockedByte())
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return errHeld
	}
	return err
}

func unlockFile(f *os.File) error {
	return windows.UnlockFileEx(windows.Handle(f.Fd()), 0, 1, 0, lockedByte())
}

func lockedByte() *windows.Overlapped { return &windows.Overlapped{OffsetHigh: 1} }

// owned and shared return false: files inherit the permissions of their folder.
func owned(fs.FileInfo) bool  { return false }
func shared(fs.FileInfo) bool { return false }

// syncDir does nothing: Windows has no such operation, and writes renames through.
func syncDir(string) error { return nil }

// full wraps system errors for lack of space in ErrFull.
func full(err error) error {
	if errors.Is(err, windows.ERROR_DISK_FULL) || errors.Is(err, windows.ERROR_HANDLE_DISK_FULL) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}
