//go:build !unix

package bm25

import (
	"io"
	"os"
)

func openFile(f *os.File) (*Segment, error) {
	image, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return Open(image)
}
