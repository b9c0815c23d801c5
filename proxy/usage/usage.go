// Package usage finds in an upstream's answer how many tokens the prompt had. It reads
// the answer as it passes and does not delay, change or keep it.
//
// An answer is a JSON object or a stream of events. The package need not tell them apart:
// in both the bytes `"usage"` are a key, as inside a JSON string their quotes would be
// escaped.
package usage

import "sidenote/proxy/coding"

// A Finding says what an answer's prompt_tokens is. It is from a closed list and so can be
// a metrics label.
type Finding string

// The findings. There is a number with Found only.
const (
	Found       Finding = "found"
	Absent      Finding = "absent"       // no usage, or none with prompt_tokens, or null
	Negative    Finding = "negative"     // below zero
	TooLarge    Finding = "too-large"    // above MaxTokens
	NotNumber   Finding = "not-a-number" // a string, bool, object, list or fraction
	Undecodable Finding = "undecodable"  // the Content-Encoding is unknown, or the body malformed or too long
)

const (
	// MaxTokens is the largest count that is taken for a real one: a hundred times the
	// largest context window there is.
	MaxTokens = 100_000_000
	// maxCompressed is how much of a compressed answer is kept, in bytes.
	maxCompressed = 256 << 10
	// maxDecoded is how much of the decoded answer is searched, in bytes.
	maxDecoded = 4 << 20
)

// A Reader finds the usage in an answer that is written to it in pieces of any size. Only
// one goroutine may use it at a time.
type Reader struct {
	scanner     scanner
	coding      string
	compressed  bool   // the answer is compressed
	kept        []byte // what came of a compressed answer
	undecodable bool   // the answer is too long, or its encoding is not known
}

// NewReader returns a Reader for an answer with that Content-Encoding. An answer that is
// not encoded ("" or identity) is searched as it passes. Of gzip, deflate, br and zstd up
// to 256 KiB are copied and decoded by PromptTokens. In others nothing is found.
func NewReader(contentEncoding string) *Reader {
	r := &Reader{coding: contentEncoding, compressed: !coding.Plain(contentEncoding)}
	r.undecodable = r.compressed && !coding.Known(contentEncoding)
	return r
}

// Write reads the next piece. It is quick, and does not keep or change piece.
func (r *Reader) Write(piece []byte) {
	switch {
	case r.undecodable:
	case !r.compressed:
		r.scanner.write(piece)
	case len(r.kept)+len(piece) > maxCompressed:
		r.kept, r.undecodable = nil, true
	default:
		r.kept = append(r.kept, piece...)
	}
}

// PromptTokens returns the count and what was found. Call it once, when the answer has
// ended, whole or cut. Of several usages the last counts, as some servers send one with
// each event. n is 0 unless f is Found. Decoding takes milliseconds and memory, so do not
// call it while a request waits.
func (r *Reader) PromptTokens() (n int, f Finding) {
	switch {
	case r.undecodable:
		return 0, Undecodable
	case r.compressed && !r.decodeKept():
		return 0, Undecodable
	}
	return promptTokens(r.scanner.usage)
}
