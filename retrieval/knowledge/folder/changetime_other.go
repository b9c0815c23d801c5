//go:build !linux

package folder

import "io/fs"

// ChangeTime returns 0: the change time is not available.
func ChangeTime(fs.FileInfo) int64 { return 0 }
