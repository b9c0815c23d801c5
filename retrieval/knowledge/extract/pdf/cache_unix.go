//go:build unix

package pdf

import (
	"io/fs"
	"os"
	"syscall"
)

// ownersAlone tells whether a folder is this user's, and no other may use it.
func ownersAlone(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}
