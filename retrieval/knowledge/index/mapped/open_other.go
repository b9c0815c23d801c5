//go:build !unix

package mapped

import (
	"io"
	"os"
)

func open(f *os.File, _ int64) (*File, error) {
	data, err := io.ReadAll(f)
	return &File{data: data}, err
}
