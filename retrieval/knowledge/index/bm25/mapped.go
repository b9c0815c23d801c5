// Package mapped reads files in place. Where the system supports it, a file is memory-mapped: its
// pages belong to the system's cache, are shared by all processes that read it and can be
// reclaimed.
package bm25

import (
	"errors"
	"fmt"
	"os"
)

// ErrNotAFile is wrapped by the error for a folder or a device.
var ErrNotAFile = errors.New("not a regular file")

// A File is an open, read-only file. It has no Close: it is unmapped some time after the last
// reference to it is gone. Readers must keep a reference.
type MappedFile struct{ data []byte }

// OpenMapped opens a regular file.
//
// The file must not be changed or truncated while it is open: write another and rename it. Reading
// a truncated part ends the process, except under Guard. Removing the file does no harm.
func OpenMapped(name string) (*MappedFile, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("open %s: %w", name, ErrNotAFile)
	}
	return open(f, info.Size())
}

// Bytes returns the content. It must not be modified, and is valid as long as the File is
// referenced.
func (f *MappedFile) Bytes() []byte { return f.data }
