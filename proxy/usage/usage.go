// Package usage reads how many tokens a prompt had off the upstream's answer
// as it passes, without delaying, changing or holding it.
//
// It knows two shapes without telling them apart, a JSON object and a stream of
// events, because in both the bytes `"usage"` are a key: inside a JSON string
// their quotes would be escaped.
package usage

import "sidenote/proxy/coding"

// A Finding says what an answer's prompt_tokens is. The list is closed: it is
// safe as a metrics label.
type Finding string

// The findings. Only Found comes with a number.
const (
	Found       Finding = "found"
	Absent      Finding = "absent"       // no usage, or none with prompt_tokens, or null
	Negative    Finding = "negative"     // below zero
	TooLarge    Finding = "too-large"    // above MaxTokens
	NotNumber   Finding = "not-a-number" // a string, bool, object, list or fraction
	Undecodable Finding = "undecodable"  // an encoding that is unknown, broken or beyond the bounds
)

const (
	// MaxTokens is the largest count that is believed: a hundred times the
	// largest window there is.
	MaxTokens = 100_000_000
	// maxCompressed is how much of a compressed answer is kept, in bytes.
	maxCompressed = 256 << 10
	// maxDecoded is how much of it is looked at, in bytes.
	maxDecoded = 4 << 20
)

// A Reader finds an answer's usage in its bytes, in pieces of any size. It is
// used by one goroutine at a time.
type Reader struct {
	scanner     scanner
	coding      string
	compressed  bool   // the answer is compressed
	kept        []byte // of such an answer
	undecodable bool   // it had more, or nobody can decode it
}

// NewReader returns a Reader of an answer with that Content-Encoding. A plain
// answer ("" or identity) is searched as it passes. Of gzip, deflate, br and
// zstd up to 256 KiB are copied for PromptTokens. Of others nothing is found.
func NewReader(contentEncoding string) *Reader {
	r := &Reader{coding: contentEncoding, compressed: !coding.Plain(contentEncoding)}
	r.undecodable = r.compressed && !coding.Known(contentEncoding)
	return r
}

// Write takes the next piece. It is quick, and does not keep or change piece.
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

// PromptTokens returns the count and what was found, once the answer has ended,
// whole or cut. Of several usages the last counts: some servers send one with
// each event. n is 0 unless f is Found. It may decode, which takes milliseconds
// and memory: call it off the data path, and once.
func (r *Reader) PromptTokens() (n int, f Finding) {
	switch {
	case r.undecodable:
		return 0, Undecodable
	case r.compressed && !r.decodeKept():
		return 0, Undecodable
	}
	return promptTokens(r.scanner.usage)
}
