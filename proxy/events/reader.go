package events

import (
	"errors"
	"io"

	"sidenote/proxy/coding"
)

const (
	// maxCompressed is how much of a compressed answer is kept, in bytes.
	maxCompressed = 256 << 10
	// maxDecoded is how much of the decoded answer is read, in bytes.
	maxDecoded = 4 << 20
)

// A Reader finds the usage in an answer that is relayed as it comes: it reads along and
// hands on nothing. Only one goroutine may use it at a time; Reset comes first.
type Reader struct {
	usage       Usage
	answer      Splitter
	coding      string
	compressed  bool   // the answer is compressed
	kept        []byte // what came of a compressed answer
	undecodable bool   // the answer is too long, or its encoding is not known
}

// Reset prepares r for an answer with that Content-Encoding, which is a stream of events or
// not. One that is not encoded ("" or identity) is read as it comes. Of gzip, deflate, br
// and zstd up to 256 KiB are copied and decoded by PromptTokens. In others nothing is found.
func (r *Reader) Reset(stream bool, contentEncoding string) {
	r.usage.object = r.usage.object[:0]
	r.answer.Reset(stream, io.Discard, r.usage.Stage)
	r.coding, r.compressed = contentEncoding, !coding.Plain(contentEncoding)
	r.kept, r.undecodable = nil, r.compressed && !coding.Known(contentEncoding)
}

// Write takes the next piece. It is quick, and does not keep or change piece.
func (r *Reader) Write(piece []byte) {
	switch {
	case r.undecodable:
	case !r.compressed:
		_, _ = r.answer.Write(piece) // nothing in it fails
	case len(r.kept)+len(piece) > maxCompressed:
		r.kept, r.undecodable = nil, true
	default:
		r.kept = append(r.kept, piece...)
	}
}

// PromptTokens returns the count and what was found, as that of a Usage. Call it once, when
// the answer has ended, whole or cut. It may take milliseconds and memory, so do not call it
// while a request waits.
func (r *Reader) PromptTokens() (n int, f Finding) {
	if r.undecodable || r.compressed && !r.decode() {
		return 0, Undecodable
	}
	_ = r.answer.Close() // nothing in it fails
	return r.usage.PromptTokens()
}

// decode reads the compressed answer, and reports whether the result can be used. An answer
// that was cut is read as far as it goes. Not every decoder can tell a cut from malformed
// data, so a usage that was found before either of them counts.
func (r *Reader) decode() bool {
	if len(r.kept) == 0 {
		return true
	}
	err := coding.Decode(&bounded{&r.answer, maxDecoded}, r.coding, r.kept)
	r.kept = nil
	_ = r.answer.Close() // nothing in it fails
	switch {
	case err == nil, errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, io.EOF):
		return true
	}
	return !errors.Is(err, coding.ErrTooLong) && len(r.usage.object) > 0
}

// A bounded passes on what is written to it, and fails beyond a number of bytes.
type bounded struct {
	io.Writer
	left int // bytes that may still be written
}

// Write implements io.Writer.
func (b *bounded) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, coding.ErrTooLong
	}
	return b.Writer.Write(p)
}
