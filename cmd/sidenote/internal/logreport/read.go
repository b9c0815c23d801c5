package logreport

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
)

// maxLine limits the lines that are read, in bytes. Lines of requests have about 1 KiB.
const maxLine = 1 << 20

// Read counts the lines of a log, which may be compressed by gzip, without keeping them. After an
// error, the lines before it remain counted.
func (t *Tally) Read(ctx context.Context, r io.Reader) error {
	lines := bufio.NewReaderSize(r, maxLine)
	if magic, _ := lines.Peek(2); bytes.Equal(magic, []byte{0x1f, 0x8b}) {
		unzipped, err := gzip.NewReader(lines)
		if err != nil {
			return fmt.Errorf("unzip: %w", err)
		}
		lines = bufio.NewReaderSize(unzipped, maxLine)
	}
	for {
		text, err := lines.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			t.Add(nil)
			err = skipLine(lines)
		case len(bytes.TrimSpace(text)) > 0:
			t.Add(text)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
	}
}

// skipLine skips the rest of a line.
func skipLine(r *bufio.Reader) error {
	for {
		if _, err := r.ReadSlice('\n'); !errors.Is(err, bufio.ErrBufferFull) {
			return err
		}
	}
}
