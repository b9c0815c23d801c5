package bm25

import (
	"fmt"
	"os"
)

// OpenFile returns the segment of an image in a file. Where the system can, the
// file is mapped, not read: its pages belong to the system's cache, are shared by
// all processes that read it and can be taken back. The mapping goes when nothing
// holds the Segment any more.
//
// A file must not be changed or cut while it is open, which a process that maps it
// would not survive: write another and rename it. Removing it does no harm.
func OpenFile(name string) (*Segment, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	s, err := openFile(f)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", name, err)
	}
	return s, nil
}
