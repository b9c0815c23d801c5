package usage

import (
	"errors"
	"io"

	"sidenote/proxy/coding"
)

// A bounded writer feeds a scanner and fails beyond the bound.
type bounded struct {
	plain *scanner
	left  int // bytes
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, coding.ErrTooLong
	}
	b.plain.write(p)
	return len(p), nil
}

// decodeHeld searches what a compressed answer holds, and reports whether that
// says something. An answer that was cut is read as far as it goes; not every
// decoder tells a cut from nonsense, so what came before either counts.
func (r *Reader) decodeHeld() bool {
	if len(r.held) == 0 {
		return true
	}
	err := coding.Decode(&bounded{plain: &r.plain, left: maxDecoded}, r.coding, r.held)
	r.held = nil
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return !errors.Is(err, coding.ErrTooLong) && len(r.plain.usage) > 0
}
