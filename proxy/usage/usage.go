// Package usage finds out what an answer used, in tokens: it reads along while the answer
// is relayed, and looks for the usage that the upstream tells once the answer has ended.
package usage

// A Usage is what one answer used, in tokens. Its numbers were checked, see Finding.
type Usage struct {
	Input        int64 // of the prompt, those of CachedInput included
	CachedInput  int64 // of the prompt, read from the upstream's cache
	CacheWrite   int64 // of the prompt, written into that cache, those of CacheWrite1h included
	CacheWrite1h int64 // likewise, to be kept for an hour
	Output       int64 // generated, of all choices, those of Reasoning included
	Reasoning    int64 // generated and not shown
	Known        bool  // the upstream told Input and Output; else both are zero, or Output is (Partial)
}

// A Finding says what an answer's usage is. It is from a closed list and so can be a
// metrics label.
type Finding string

// The findings. With all but Found and Partial the Usage is zero.
const (
	Found        Finding = "found"
	Partial      Finding = "partial"      // only the tokens of the prompt are told
	Absent       Finding = "absent"       // no usage, or none with tokens, or null
	Negative     Finding = "negative"     // a number below zero
	TooLarge     Finding = "too-large"    // a number above MaxTokens
	NotNumber    Finding = "not-a-number" // a string, bool, object, list, or a number with a fraction or an exponent
	Malformed    Finding = "malformed"    // the object is not JSON
	Duplicate    Finding = "duplicate"    // a key stands twice, or a number under two names that differs
	Inconsistent Finding = "inconsistent" // more tokens cached than there are in the prompt, or more reasoning than output
	Undecodable  Finding = "undecodable"  // the Content-Encoding is unknown, or the body malformed or too long
	Unread       Finding = "unread"       // there was no time to read it, or reading it met a bug
	Failed       Finding = "failed"       // the stream ends with an error of the upstream, and without usage
)

// Ignored tells whether there is a usage that cannot be used.
func (f Finding) Ignored() bool {
	switch f {
	case Found, Partial, Absent, Failed:
		return false
	}
	return true
}

// MaxTokens is the largest number that is taken for a real one: a hundred times the
// largest context window there is.
const MaxTokens = 100_000_000
