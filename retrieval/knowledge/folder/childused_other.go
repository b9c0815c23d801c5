//go:build !linux

package folder

// used returns how many bytes of memory the process takes; pdfium's own is bounded by itself.
func used() int64 { return runtimeUsed() }

func dieFirst() {}
