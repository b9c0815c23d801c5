//go:build !unix

package bm25

import (
	"io"
	"os"
)

func open(f *os.File, _ int64) (*MappedFile, error) {
	data, err := io.ReadAll(f)
	return &MappedFile{data: data}, err
}
