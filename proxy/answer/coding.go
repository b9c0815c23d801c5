package answer

import (
	"bytes"
	"errors"
	"io"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/valyala/fasthttp"
)

// Errors of DecodeText and DecodeCoding, besides those of the decoders.
var (
	ErrUnknownCoding  = errors.New("unknown content coding")
	ErrDecodedTooLong = errors.New("decoded text is too long")
	ErrNoDecodeRoom   = errors.New("not enough memory for a decoded text")
)

// maxWindow is the largest window that a zstd frame may request (RFC 9659).
const maxWindow = 8 << 20

// leastText is the initial capacity of a decoded text.
const leastText = 4 << 10

// A decoder decodes body and writes the result to w until w fails.
type decoder func(w io.Writer, body []byte) (int, error)

func of(contentEncoding string) decoder {
	switch strings.ToLower(strings.TrimSpace(contentEncoding)) {
	case "gzip", "x-gzip":
		return fasthttp.WriteGunzip
	case "deflate":
		return fasthttp.WriteInflate
	case "br":
		return fasthttp.WriteUnbrotli
	case "zstd":
		return unzstd
	}
	return nil
}

// PlainCoding reports whether a Content-Encoding means that the body is not encoded.
func PlainCoding(contentEncoding string) bool {
	e := strings.TrimSpace(contentEncoding)
	return e == "" || strings.EqualFold(e, "identity")
}

// KnownCoding reports whether DecodeCoding supports a Content-Encoding: gzip, deflate, br or zstd.
// Lists of several are not supported.
func KnownCoding(contentEncoding string) bool { return of(contentEncoding) != nil }

// DecodeCoding decodes as much of body as it can and writes the result to w until w fails. For a
// truncated body the error wraps io.ErrUnexpectedEOF, but not every decoder can tell a truncated
// body from a malformed one.
func DecodeCoding(w io.Writer, contentEncoding string, body []byte) error {
	decode := of(contentEncoding)
	if decode == nil {
		return ErrUnknownCoding
	}
	_, err := decode(w, body)
	return err
}

// DecodeText returns the decoded body, or ErrDecodedTooLong if that has more than limit bytes. It
// allocates at most a few times limit, whatever body holds. Before it allocates n more bytes for
// the text it calls take(n) and fails with ErrNoDecodeRoom if that returns false. A nil take allows
// everything.
func DecodeText(contentEncoding string, body []byte, limit int, take func(n int) bool) ([]byte, error) {
	b := bounded{limit: limit, take: take}
	if err := DecodeCoding(&b, contentEncoding, body); err != nil {
		return nil, err
	}
	return b.text, nil
}

// A bounded collects what is written to it and fails beyond its limit.
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
		return 0, ErrDecodedTooLong
	case need > cap(b.text):
		size := min(max(need, 2*cap(b.text), leastText), b.limit)
		if b.take != nil && !b.take(size-cap(b.text)) {
			return 0, ErrNoDecodeRoom
		}
		b.text = append(make([]byte, 0, size), b.text...)
	}
	b.text = append(b.text, p...)
	return len(p), nil
}

// unzstd avoids fasthttp's decoder, which allocates any window that a frame requests: 512 MiB for a
// dozen bytes.
func unzstd(w io.Writer, body []byte) (int, error) {
	r, err := zstd.NewReader(bytes.NewReader(body), zstd.WithDecoderConcurrency(1),
		zstd.WithDecoderLowmem(true), zstd.WithDecoderMaxWindow(maxWindow))
	if err != nil {
		return 0, err
	}
	defer r.Close()
	n, err := r.WriteTo(w)
	return int(n), err
}
