package bm25

import (
	"errors"
	"fmt"
	"os"
)

// ErrNotAFile is in the error of a name that is a folder's or a device's.
var ErrNotAFile = errors.New("not a regular file")

// A MappedFile is a file that is open for reading. It has no Close: it is unmapped some time
// after nothing refers to the MappedFile any more. Whoever reads it must keep a reference.
type MappedFile struct{ data []byte }

// OpenMapped opens a regular file.
//
// A file must not be changed or truncated while it is open: write another and rename it. A
// read of what was truncated ends the process, except under Guard. Removing the file does
// no harm.
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

// Bytes returns the content, which must not be changed, and is valid as long as the File is
// referred to.
func (f *MappedFile) Bytes() []byte { return f.data }
