// Package coding undoes HTTP's content codings (RFC 9110 §8.4) within bounds: what
// comes from elsewhere may be a bomb.
package coding

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"
)

// The errors of decoding, beside those of the decoders.
var (
	ErrUnknown = errors.New("unknown content coding")
	ErrTooLong = errors.New("decoded text is too long")
	ErrNoRoom  = errors.New("no room for a decoded text")
)

// maxWindow bounds what a zstd stream may make its reader allocate (RFC 9659).
const maxWindow = 8 << 20

// leastText is room for a text to begin with.
const leastText = 4 << 10

// A decoder writes to w what body holds, until w fails.
type decoder func(w io.Writer, body []byte) error

func of(contentEncoding string) decoder {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "gzip", "x-gzip":
		return gunzip
	case "deflate":
		return inflate
	case "br":
		return unbrotli
	case "zstd":
		return unzstd
	}
	return nil
}

// Plain tells whether a Content-Encoding changes nothing.
func Plain(contentEncoding string) bool {
	e := strings.TrimSpace(contentEncoding)
	return e == "" || strings.EqualFold(e, "identity")
}

// Known tells whether Decode knows a Content-Encoding: gzip, deflate, br or zstd,
// and no list of several.
func Known(contentEncoding string) bool { return of(contentEncoding) != nil }

// Decode writes to w what body holds, as far as it can be read and until w fails.
// A body that was cut ends in an error that wraps io.ErrUnexpectedEOF; not every
// decoder tells a cut from nonsense.
func Decode(w io.Writer, contentEncoding string, body []byte) error {
	decode := of(contentEncoding)
	if decode == nil {
		return ErrUnknown
	}
	return decode(w, body)
}

// Text returns what body holds, or ErrTooLong if that has more than limit bytes. It
// allocates no more than a few times limit, whatever body is. Each time that the
// text needs n bytes more, take(n) says whether there is room for them, else the
// error is ErrNoRoom; nil always has room.
func Text(contentEncoding string, body []byte, limit int, take func(n int) bool) ([]byte, error) {
	b := bounded{limit: limit, take: take}
	if err := Decode(&b, contentEncoding, body); err != nil {
		return nil, err
	}
	return b.text, nil
}

// A bounded writer fails beyond its limit.
type bounded struct {
	text  []byte
	limit int
	take  func(n int) bool
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	need := len(b.text) + len(p)
	switch {
	case need > b.limit:
		return 0, ErrTooLong
	case need > cap(b.text):
		size := min(max(need, 2*cap(b.text), leastText), b.limit)
		if b.take != nil && !b.take(size-cap(b.text)) {
			return 0, ErrNoRoom
		}
		b.text = append(make([]byte, 0, size), b.text...)
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

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
