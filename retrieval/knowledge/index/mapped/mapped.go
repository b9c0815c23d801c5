// Package mapped reads files where they lie. Where the system can, a file is
// mapped, not read: its pages belong to the system's cache, are shared by all
// processes that read it and can be taken back.
package mapped

import (
	"errors"
	"fmt"
	"os"
)

// ErrNotAFile is in the error of a name that is a folder's or a device's.
var ErrNotAFile = errors.New("not a regular file")

// A File is a file that is open for reading. Nothing closes it: it goes some time
// after nothing holds the File any more, which a reader that is still at it does.
type File struct{ data []byte }

// Open opens a regular file.
//
// A file must not be changed or cut while it is open: write another and rename it. A
// process that reads what was cut ends, unless it does so under Guard. Removing it does
// no harm.
func Open(name string) (*File, error) {
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

// Bytes returns the content. It must not be changed, and not be read once the File
// may be gone: who keeps a part of it keeps the File, too.
func (f *File) Bytes() []byte { return f.data }
