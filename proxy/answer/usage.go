package answer

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

// A UsageFinding says what an answer's usage is. It is from a closed list and so can be a
// metrics label.
type UsageFinding string

// The findings. With all but UsageFound and UsagePartial the Usage is zero.
const (
	UsageFound        UsageFinding = "found"
	UsagePartial      UsageFinding = "partial"      // only the tokens of the prompt are told
	UsageAbsent       UsageFinding = "absent"       // no usage, or none with tokens, or null
	UsageNegative     UsageFinding = "negative"     // a number below zero
	UsageTooLarge     UsageFinding = "too-large"    // a number above MaxTokens
	UsageNotNumber    UsageFinding = "not-a-number" // a string, bool, object, list, or a number with a fraction or an exponent
	UsageMalformed    UsageFinding = "malformed"    // the object is not JSON
	UsageDuplicate    UsageFinding = "duplicate"    // a key stands twice, or a number under two names that differs
	UsageInconsistent UsageFinding = "inconsistent" // more tokens cached than there are in the prompt, or more reasoning than output
	UsageUndecodable  UsageFinding = "undecodable"  // the Content-Encoding is unknown, or the body malformed or too long
	UsageUnread       UsageFinding = "unread"       // there was no time to read it, or reading it met a bug
	OutcomeFailed     UsageFinding = "failed"       // the stream ends with an error of the upstream, and without usage
)

// Ignored tells whether there is a usage that cannot be used.
func (f UsageFinding) Ignored() bool {
	switch f {
	case UsageFound, UsagePartial, UsageAbsent, OutcomeFailed:
		return false
	}
	return true
}

// MaxUsageTokens is the largest number that is taken for a real one: a hundred times the
// largest context window there is.
const MaxUsageTokens = 100_000_000
