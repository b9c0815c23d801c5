//go:build !unix

package pdf

import "io/fs"

// ownersAlone returns true: a folder inherits its permissions.
func ownersAlone(fs.FileInfo) bool { return true }
