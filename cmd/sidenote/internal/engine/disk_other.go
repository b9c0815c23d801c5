//go:build !unix

package engine

// readOnlyDisk tells whether an error is about a file system that takes no writes.
func readOnlyDisk(error) bool { return false }
