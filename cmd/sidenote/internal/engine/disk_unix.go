//go:build unix

package engine

import (
	"errors"
	"syscall"
)

// readOnlyDisk tells whether an error is about a file system that takes no writes.
func readOnlyDisk(err error) bool { return errors.Is(err, syscall.EROFS) }
