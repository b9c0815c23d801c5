//go:build !unix

package terminal

import "io"

// Columns returns 0, as the width is not known on this system.
func Columns(io.Writer) int { return 0 }
