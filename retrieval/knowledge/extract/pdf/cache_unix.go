//go:build unix

package pdf

import (
	"io/fs"
	"os"
	"syscall"
)

// ownersAlone reports whether a folder is owned by this user and not accessible to others.
func ownersAlone(info fs.FileInfo) bool {
	stat, ok := info.Sys().(*syscall.Stat_t)
	return ok && int(stat.Uid) == os.Geteuid() && info.Mode().Perm()&0o077 == 0
}
