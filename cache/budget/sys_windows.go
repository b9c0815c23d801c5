package budget

import (
	"errors"
	"os"

	"golang.org/x/sys/windows"
)

// LockFile locks an open file without waiting, or returns ErrInUse. The system releases the lock
// when the process ends.
func LockFile(f *os.File) error {
	const how = windows.LOCKFILE_EXCLUSIVE_LOCK | windows.LOCKFILE_FAIL_IMMEDIATELY
	err := windows.LockFileEx(windows.Handle(f.Fd()), how, 0, 1, 0, &windows.Overlapped{})
	if errors.Is(err, windows.ERROR_LOCK_VIOLATION) {
		return ErrInUse
	}
	return err
}

// syncDir does nothing: Windows has no equivalent, and writes names through.
func syncDir(string) error { return nil }
