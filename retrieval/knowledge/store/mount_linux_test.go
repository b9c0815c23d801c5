package store_test

import (
	"syscall"
	"testing"
)

// mountSmall mounts a disk of 4 MB on dir, for as long as the test runs.
func mountSmall(t *testing.T, dir string) error {
	t.Cleanup(func() { _ = syscall.Unmount(dir, 0) })
	return syscall.Mount("none", dir, "tmpfs", 0, "size=4m")
}
