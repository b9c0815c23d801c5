package budget

import "golang.org/x/sys/unix"

// full reports whether the disk of a folder is full.
func full(dir string) bool {
	var disk unix.Statfs_t
	return unix.Statfs(dir, &disk) == nil && disk.Blocks > 0 && disk.Bavail == 0
}
