package folder

import (
	"io/fs"
	"syscall"
)

// ChangeTime is when anything of a file was last changed, in Unix nanoseconds. Unlike the
// time of modification no program can set it: two versions of a file that come out of
// images or archives may have the same time of modification.
func ChangeTime(info fs.FileInfo) int64 {
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		return st.Ctim.Nano()
	}
	return 0
}
