//go:build !linux

package folder

// used returns the memory of the process, in bytes. It excludes pdfium's own, which has its own
// limit.
func used() int64 { return runtimeUsed() }

func dieFirst() {}
