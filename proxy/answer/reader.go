package answer

import (
	"errors"
	"io"
	"sync"

	"sidenote/proxy/route"
)

const (
	// endSize is how much of the end of an answer is searched, in bytes. Usage is the last of
	// a stream but for [DONE] and an event or two, and near the end of a JSON answer.
	endSize = 4 << 10
	// responsesEnd is endSize on the route responses, where up to 9 KiB of metadata, which the
	// client chooses, follow the usage.
	responsesEnd = 12 << 10
	// beginSize is how much of the beginning of a longer JSON answer is searched: some
	// servers tell the usage first.
	beginSize = 1 << 10
	// messageStart is how much of the beginning of a longer stream of messages is searched: its
	// first event tells what the prompt used.
	messageStart = 4 << 10
	// maxCompressed is how much of a compressed answer is kept, in bytes.
	maxCompressed = 256 << 10
	// maxDecoded is how much of the decoded answer is read, in bytes.
	maxDecoded = 4 << 20
)

// UsageReported tells whether answers on a route tell what they used, in a way that is read here.
func UsageReported(r route.Kind) bool {
	return r == route.Chat || r == route.Completions || r == route.Responses || r == route.Messages || r == route.Embeddings
}

// A UsageReader finds the usage in an answer that is relayed as it comes: it reads along and
// hands on nothing. Of an answer it keeps the last 6 KiB (on the route responses 18) and the first one.
// Only one goroutine may use it at a time; Reset comes first.
type UsageReader struct {
	stream     bool
	embeddings bool
	messages   bool
	size       int    // endSize or responsesEnd
	beginSize  int    // of begin
	begin      []byte // of an answer longer than end
	end        []byte // the whole answer, or its last size bytes at least
	cut        bool   // end is not the whole answer

	limit int    // of text
	text  []byte // the beginning of an answer longer than end, to count its text
	total int64  // bytes of the answer

	coding      string
	compressed  bool   // the answer is compressed
	kept        []byte // what came of a compressed answer
	undecodable bool   // the answer is too long, or its encoding is not known
}

// Reset prepares r for an answer on a route, with that Content-Encoding, which is a stream
// of events or a JSON object. One that is not encoded ("" or identity) is read as it comes.
// Of gzip, deflate, br and zstd up to 256 KiB are copied, and decoded by Usage. In others
// nothing is found.
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

// Write takes the next piece. It is quick, and does not keep or change piece.
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

// Quick tells whether Usage takes microseconds. If not, it decodes a copy of the answer,
// which may take milliseconds and memory, so do not call it while a request waits.
func (r *UsageReader) Quick() bool { return !r.compressed || r.undecodable || len(r.kept) == 0 }

// Usage returns what was found. Call it once, when the answer has ended, whole or cut. Of
// several usages the last counts, as some servers send one with each event.
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
		return Usage{}, OutcomeFailed
	case ok:
		return o.usage(r.embeddings)
	case !decoded:
		return Usage{}, UsageUndecodable
	case r.stream && hasFailed(r.end):
		return Usage{}, OutcomeFailed
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

// ofMessage adds what the first event of a stream of messages tells to the last usage, if there is
// one. The first alone tells nothing of the output: it has a token of it, whatever follows.
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

// decode reads the compressed answer, and reports whether that went well. An answer that
// was cut is read as far as it goes. Not every decoder can tell a cut from malformed data,
// so a usage that was found before either of them counts.
func (r *UsageReader) decode() bool {
	err := DecodeCoding(&boundedUsage{r, maxDecoded}, r.coding, r.kept)
	r.kept = nil
	if errors.Is(err, ErrDecodedTooLong) {
		r.undecodable = true
	}
	return err == nil || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF)
}

// A boundedUsage passes on what is written to it, and fails beyond a number of bytes.
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

// A UsagePool keeps UsageReaders for reuse. The zero value is ready, and safe for concurrent use.
type UsagePool struct{ readers sync.Pool }

// Get returns a UsageReader; call Reset before reading.
func (p *UsagePool) Get() *UsageReader {
	r, _ := p.readers.Get().(*UsageReader)
	if r == nil {
		r = new(UsageReader)
	}
	return r
}

// Put gives back a UsageReader that nobody uses any more, and drops what it has read.
func (p *UsagePool) Put(r *UsageReader) {
	clear(r.begin)
	clear(r.end)
	r.kept, r.text = nil, nil
	p.readers.Put(r)
}
