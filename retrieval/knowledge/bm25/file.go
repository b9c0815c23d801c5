package bm25

import (
	"fmt"

	"sidenote/retrieval/knowledge/mapped"
)

// OpenFile returns the segment of an image in a file, which is mapped where the
// system can: see package mapped. The mapping goes when nothing holds the Segment
// any more.
func OpenFile(name string) (*Segment, error) {
	f, err := mapped.Open(name)
	if err != nil {
		return nil, err
	}
	s, err := OpenIn(f.Bytes(), f)
	if err != nil {
		return nil, fmt.Errorf("open index %s: %w", name, err)
	}
	return s, nil
}
