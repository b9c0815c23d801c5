package folder

import (
	"io/fs"
	"syscall"
)

// ChangeTime returns when a file was last changed in any way, in Unix nanoseconds. Unlike the
// modification time, programs cannot set it: two versions of a file from images or archives may
// have the same modification time.
func ChangeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}
