package budget

import "golang.org/x/sys/unix"

// full tells whether the disk of a folder has no room.
func full(dir string) bool {
	var disk unix.Statfs_t
	return unix.Statfs(dir, &disk) == nil && disk.Blocks > 0 && disk.Bavail == 0
}
