//go:build !linux

package budget

// full reports whether the disk of a folder is full; on this system only a write shows that.
func full(string) bool { return false }
