package usage

import (
	"errors"
	"io"

	"sidenote/proxy/coding"
)

// A bounded writer feeds a scanner and fails beyond the bound.
type bounded struct {
	scanner *scanner
	left    int // bytes
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, coding.ErrTooLong
	}
	b.scanner.write(p)
	return len(p), nil
}

// decodeKept searches what a compressed answer holds, and reports whether that
// says something. An answer that was cut is read as far as it goes; not every
// decoder tells a cut from nonsense, so what came before either counts.
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
