package answer

// A Usage is the checked token usage of one answer. See UsageFinding.
type Usage struct {
	Input        int64 // prompt tokens, including CachedInput and CacheWrite
	CachedInput  int64 // prompt tokens read from the upstream's cache
	CacheWrite   int64 // prompt tokens written to that cache, including CacheWrite1h
	CacheWrite1h int64 // those kept for an hour
	Output       int64 // generated tokens of all choices, including Reasoning
	Reasoning    int64 // generated tokens of hidden reasoning
	Known        bool  // both Input and Output were reported; if not, Output is 0, and Input too unless UsagePartial
}

// A UsageFinding says what was found of an answer's usage. It has a closed set of values, so it can
// be a metrics label.
type UsageFinding string

// The findings. The Usage is zero for all except UsageFound and UsagePartial.
const (
	UsageFound          UsageFinding = "found"
	UsagePartial        UsageFinding = "partial"      // only the prompt tokens were reported
	UsageAbsent         UsageFinding = "absent"       // no usage, usage without tokens, or null
	UsageNegative       UsageFinding = "negative"     // a negative number
	UsageTooLarge       UsageFinding = "too-large"    // a number above MaxUsageTokens
	UsageNotNumber      UsageFinding = "not-a-number" // a string, bool, object or array, or a number with a fraction or exponent
	UsageMalformed      UsageFinding = "malformed"    // the object is not valid JSON
	UsageDuplicate      UsageFinding = "duplicate"    // a duplicate key, or different numbers under two names
	UsageInconsistent   UsageFinding = "inconsistent" // more cached tokens than prompt tokens, or more reasoning than output
	UsageUndecodable    UsageFinding = "undecodable"  // an unknown Content-Encoding, or a malformed or too long body
	UsageUnread         UsageFinding = "unread"       // there was no time to read it, or reading it panicked
	UsageUpstreamFailed UsageFinding = "failed"       // the stream ends with an upstream error and has no usage
)

// Ignored reports whether there is a usage that cannot be used.
func (f UsageFinding) Ignored() bool {
	switch f {
	case UsageFound, UsagePartial, UsageAbsent, UsageUpstreamFailed:
		return false
	}
	return true
}

// MaxUsageTokens is the largest plausible number, a hundred times the largest context window.
const MaxUsageTokens = 100_000_000
