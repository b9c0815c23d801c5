//go:build unix

package watch

import (
	"io/fs"
	"syscall"
)

// inode tells a file from another one that took its name.
func inode(info fs.FileInfo) uint64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Ino)
	}
	return 0
}
