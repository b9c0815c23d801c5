package usage

import (
	"bytes"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"
)

// maxWindow bounds what a zstd stream may make its reader allocate (RFC 9659).
const maxWindow = 8 << 20

// A decoder writes to w what body holds, until w fails.
type decoder func(w io.Writer, body []byte) error

func gunzip(w io.Writer, body []byte) error {
	_, err := fasthttp.WriteGunzip(w, body)
	return err
}

func inflate(w io.Writer, body []byte) error {
	_, err := fasthttp.WriteInflate(w, body)
	return err
}

func unbrotli(w io.Writer, body []byte) error {
	_, err := fasthttp.WriteUnbrotli(w, body)
	return err
}

// unzstd does without fasthttp, which takes any window that a frame asks for:
// 512 MiB for a dozen bytes.
func unzstd(w io.Writer, body []byte) error {
	r, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = r.WriteTo(w)
	return err
}

var errTooMuch = errors.New("more than will be looked at")

// A bounded writer feeds a scanner and fails beyond the bound.
type bounded struct {
	plain *scanner
	left  int // bytes
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, errTooMuch
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
	err := r.decode(&bounded{plain: &r.plain, left: maxDecoded}, r.held)
	r.held = nil
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return !errors.Is(err, errTooMuch) && len(r.plain.usage) > 0
}
