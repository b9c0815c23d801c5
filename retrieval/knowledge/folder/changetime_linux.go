package folder

import (
	"io/fs"
	"syscall"
)

// ChangeTime is when the system last changed anything of a file, Unix nanoseconds: no
// program can set it back. Images and archives come with times of their own, and two
// versions of a file in them may have the same.
func ChangeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}
