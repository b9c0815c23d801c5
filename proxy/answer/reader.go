package answer

import (
	"errors"
	"io"
	"sync"

	"sidenote/proxy/route"
)

const (
	// endSize is how many bytes at the end of an answer are searched. In a stream only [DONE] and
	// an event or two follow the usage, and in a JSON answer it is near the end.
	endSize = 4 << 10
	// responsesEnd replaces endSize on the responses route, where up to 9 KiB of the client's
	// metadata follow the usage.
	responsesEnd = 12 << 10
	// beginSize is how many bytes at the start of a longer JSON answer are searched, since some
	// servers put the usage first.
	beginSize = 1 << 10
	// messageStart is how many bytes at the start of a longer stream of the messages route are
	// searched: its first event has the usage of the prompt.
	messageStart = 4 << 10
	// maxCompressed is how many bytes of a compressed answer are kept.
	maxCompressed = 256 << 10
	// maxDecoded is how many bytes of a decoded answer are read.
	maxDecoded = 4 << 20
)

// UsageReported reports whether UsageReader can read usage from answers of a route.
func UsageReported(r route.Kind) bool {
	return r == route.Chat || r == route.Completions || r == route.Responses || r == route.Messages || r == route.Embeddings
}

// A UsageReader finds the usage in an answer that is relayed as it arrives. Of a longer answer it
// keeps at most the last 6 KiB (18 on the responses route), the first 1 KiB of JSON and the first 4
// KiB of a messages stream. It is not safe for concurrent use; call Reset first.
type UsageReader struct {
	stream     bool
	embeddings bool
	messages   bool
	size       int    // endSize or responsesEnd
	beginSize  int    // capacity of begin; 0 if it is not kept
	begin      []byte // start of an answer that is longer than end
	end        []byte // the whole answer, or at least its last size bytes
	cut        bool   // end is not the whole answer

	limit int    // size of text; see KeepText
	text  []byte // start of an answer that is longer than end, for counting its text
	total int64  // length of the decoded answer

	coding      string
	compressed  bool   // the answer is compressed
	kept        []byte // the compressed answer so far
	undecodable bool   // the answer is too long, or its encoding is unknown
}

// Reset prepares r for an answer on a route, an event stream or a JSON object. An unencoded answer
// is read as it arrives. Of gzip, deflate, br and zstd, up to 256 KiB are copied and decoded by
// Usage. With other encodings no usage is found.
func (r *UsageReader) Reset(on route.Kind, stream bool, contentEncoding string) {
	*r = UsageReader{stream: stream, embeddings: on == route.Embeddings, messages: on == route.Messages, size: endSize, begin: r.begin[:0], end: r.end[:0], coding: contentEncoding}
	if on == route.Responses {
		r.size = responsesEnd
	}
	switch {
	case !stream:
		r.beginSize = beginSize
	case r.messages:
		r.beginSize = messageStart
	}
	if !PlainCoding(contentEncoding) {
		r.compressed, r.undecodable = true, !KnownCoding(contentEncoding)
	}
}

// Write reads the next piece. It is fast and neither keeps nor changes piece.
func (r *UsageReader) Write(piece []byte) {
	switch {
	case r.undecodable:
	case !r.compressed:
		r.add(piece)
	case len(r.kept)+len(piece) > maxCompressed:
		r.kept, r.undecodable = nil, true
	default:
		r.kept = append(r.kept, piece...)
	}
}

// add appends a piece of the decoded answer and drops what is too far from both ends.
func (r *UsageReader) add(piece []byte) {
	r.total += int64(len(piece))
	fits := len(r.end)+len(piece) <= r.size+r.size/2
	if r.limit > 0 && (r.cut || !fits) {
		if !r.cut {
			r.text = append(r.text, r.end[:min(len(r.end), r.limit)]...)
		}
		r.text = append(r.text, piece[:min(len(piece), r.limit-len(r.text))]...)
	}
	if fits {
		r.end = append(r.end, piece...)
		return
	}
	if !r.cut && r.beginSize > 0 {
		r.begin = append(r.begin, r.end[:min(len(r.end), r.beginSize)]...)
		r.begin = append(r.begin, piece[:min(len(piece), r.beginSize-len(r.begin))]...)
	}
	r.cut = true
	keep := max(0, r.size-len(piece))
	r.end = append(r.end[:copy(r.end, r.end[max(0, len(r.end)-keep):])], piece[max(0, len(piece)-r.size):]...)
}

// Quick reports whether Usage takes only microseconds. If not, Usage decodes a copy of the answer,
// which may take milliseconds and memory; do not call it while a request waits.
func (r *UsageReader) Quick() bool { return !r.compressed || r.undecodable || len(r.kept) == 0 }

// Usage returns the usage. Call it once, when the answer has ended, complete or not. Some servers
// report usage in each event; the last one counts.
func (r *UsageReader) Usage() (Usage, UsageFinding) {
	decoded := true
	if r.compressed && !r.undecodable && len(r.kept) > 0 {
		decoded = r.decode()
	}
	if r.undecodable {
		return Usage{}, UsageUndecodable
	}
	o, ok := r.find()
	switch {
	case ok && r.messages && o.nested && hasFailed(r.end):
		return Usage{}, UsageUpstreamFailed
	case ok:
		return o.usage(r.embeddings)
	case !decoded:
		return Usage{}, UsageUndecodable
	case r.stream && hasFailed(r.end):
		return Usage{}, UsageUpstreamFailed
	}
	return Usage{}, UsageAbsent
}

// find returns the usage object, if there is one.
func (r *UsageReader) find() (o usageObject, ok bool) {
	if r.stream {
		if o, ok = inStream(r.end, r.size); r.messages {
			return r.ofMessage(o, ok)
		}
		return o, ok
	}
	if o, ok = inJSON(r.end, 0); !ok && r.cut {
		return inBeginning(r.begin)
	}
	return o, ok
}

// ofMessage merges the usage in the first event of a messages stream with the last usage, if there
// is one. The first event alone does not give the output: it always counts a token or so.
func (r *UsageReader) ofMessage(last usageObject, found bool) (o usageObject, ok bool) {
	text := r.end
	if r.cut {
		text = r.begin
	}
	for data := range All(text) {
		if o, ok = inJSON(data, 0); ok {
			break
		}
	}
	switch {
	case !ok:
		o, ok = last, found
	case found:
		o.add(&last)
	}
	o.there[output] = o.there[output] && !o.nested
	return o, ok
}

// decode decodes the compressed answer and reports whether that succeeded. A truncated answer is
// decoded as far as possible. Not every decoder can tell truncated from malformed data, so a usage
// found before the error counts in both cases.
func (r *UsageReader) decode() bool {
	err := DecodeCoding(&boundedUsage{r, maxDecoded}, r.coding, r.kept)
	r.kept = nil
	if errors.Is(err, ErrDecodedTooLong) {
		r.undecodable = true
	}
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// A boundedUsage passes on a limited number of bytes, then fails.
type boundedUsage struct {
	to   *UsageReader
	left int // bytes that may still be written
}

// Write implements io.Writer.
func (b *boundedUsage) Write(p []byte) (int, error) {
	if b.left -= len(p); b.left < 0 {
		return 0, ErrDecodedTooLong
	}
	b.to.add(p)
	return len(p), nil
}

// A UsagePool keeps UsageReaders for reuse. The zero value is ready to use and safe for concurrent
// use.
type UsagePool struct{ readers sync.Pool }

// Get returns a UsageReader; call Reset before reading.
func (p *UsagePool) Get() *UsageReader {
	r, _ := p.readers.Get().(*UsageReader)
	if r == nil {
		r = new(UsageReader)
	}
	return r
}

// Put returns a UsageReader that is no longer used to the pool and clears what it has read.
func (p *UsagePool) Put(r *UsageReader) {
	clear(r.begin)
	clear(r.end)
	r.kept, r.text = nil, nil
	p.readers.Put(r)
}
