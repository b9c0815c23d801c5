package usage

import (
	"errors"
	"io"

	"sidenote/proxy/coding"
)

// A bounded passes what is written to it to a scanner, and fails beyond a number of bytes.
type bounded struct {
	scanner *scanner
	left    int // bytes that may still be written
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, coding.ErrTooLong
	}
	b.scanner.write(p)
	return len(p), nil
}

// decodeKept decodes and scans the compressed answer, and reports whether the result can
// be used. An answer that was cut is read as far as it goes. Not every decoder can tell a
// cut from malformed data, so a usage that was found before either of them counts.
func (r *Reader) decodeKept() bool {
	if len(r.kept) == 0 {
		return true
	}
	err := coding.Decode(&bounded{scanner: &r.scanner, left: maxDecoded}, r.coding, r.kept)
	r.kept = nil
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return !errors.Is(err, coding.ErrTooLong) && len(r.scanner.usage) > 0
}
