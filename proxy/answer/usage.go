package answer

import (
	"bytes"
	"errors"
	"io"
	"sync"

	"sidenote/proxy/route"
)

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
	return r == route.Chat || r == route.Completions || r == route.Responses || r == route.Compact || r == route.Messages || r == route.Embeddings
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

	detail     string // see Detail
	tellsCache bool   // see TellsCache
}

// TellsCache reports whether Usage found how many tokens were read from the upstream's cache, maybe 0.
func (r *UsageReader) TellsCache() bool { return r.tellsCache }

// Reset prepares r for an answer on a route, an event stream or a JSON object. An unencoded answer
// is read as it arrives. Of gzip, deflate, br and zstd, up to 256 KiB are copied and decoded by
// Usage. With other encodings no usage is found.
func (r *UsageReader) Reset(on route.Kind, stream bool, contentEncoding string) {
	*r = UsageReader{stream: stream, embeddings: on == route.Embeddings, messages: on == route.Messages, size: endSize, begin: r.begin[:0], end: r.end[:0], coding: contentEncoding}
	if on == route.Responses || on == route.Compact {
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
		u, found := o.usage(r.embeddings)
		r.detail, r.tellsCache = o.detail, o.there[cached]
		return u, found
	case !decoded:
		return Usage{}, UsageUndecodable
	case r.stream && hasFailed(r.end):
		return Usage{}, UsageUpstreamFailed
	}
	return Usage{}, UsageAbsent
}

// Detail returns the numbers for which Usage ignored the usage, for people; "" if it did not.
func (r *UsageReader) Detail() string { return r.detail }

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

// ServedBy holds the model and service tier that an answer reports; "" if it does not.
type ServedBy struct {
	Model string
	Tier  string // service_tier, which may determine the price
}

// maxName is the length in bytes of the longest name that is read.
const maxName = 128

// ServedBy returns the model and service tier that the answer reports. Call it after Usage.
func (r *UsageReader) ServedBy() ServedBy {
	return ServedBy{Model: r.named(`"model"`), Tier: r.named(`"service_tier"`)}
}

// named returns the last string value of a key. It must be a member of the answer or event, or of
// an object in it; anything deeper may be written by the model.
func (r *UsageReader) named(key string) string {
	if r.undecodable {
		return ""
	}
	if !r.stream {
		if name := usageTextOf(r.end, key); name != "" || !r.cut {
			return name
		}
		return nameInBeginning(r.begin, key)
	}
	for end := len(r.end); ; {
		i := bytes.LastIndex(r.end[:end], []byte(key))
		if i < 0 {
			break
		}
		begin := bytes.LastIndexByte(r.end[:i], '\n') + 1
		line := r.end[begin:]
		if n := bytes.IndexByte(r.end[i:], '\n'); n >= 0 {
			line = r.end[begin : i+n]
		}
		if name := usageTextOf(line, key); name != "" {
			return name
		}
		end = begin
	}
	for line := range bytes.Lines(r.begin) {
		if name := usageTextOf(line, key); name != "" {
			return name
		}
	}
	return ""
}

// maxDepth is how many objects may be closed after the value, as in an event of the messages route:
// {"type": …, "message": {"usage": {"service_tier": …}}}.
const maxDepth = 3

// usageTextOf returns the last string value of a key in a JSON object that ends with text.
func usageTextOf(text []byte, key string) string {
	for end := len(text); ; {
		i := bytes.LastIndex(text[:end], []byte(key))
		if i < 1 {
			return ""
		}
		end = i
		c := cursor{text: text, i: i + len(key)}
		if !isSpace(text[i-1]) && text[i-1] != ',' && text[i-1] != '{' || !c.take(':') || c.peek() != '"' {
			continue
		}
		name := c.str()
		if n := depth(text[c.i:]); !c.bad && len(name) <= maxName && n >= 1 && n <= maxDepth {
			return string(name)
		}
	}
}

// nameInBeginning returns the string value of a key in a JSON object that starts with text.
func nameInBeginning(text []byte, key string) (name string) {
	c := cursor{text: text}
	c.object(func(member []byte) {
		if string(member) == key[1:len(key)-1] && c.peek() == '"' {
			if b := c.str(); !c.bad && len(b) <= maxName {
				name = string(b)
			}
			return
		}
		c.skip()
	})
	return name
}

// An Outcome says how far an upstream call got.
type Outcome int

// The outcomes.
const (
	OutcomeNotSent   Outcome = iota // nothing of the request can have reached the upstream
	OutcomeUnknown                  // no answer, but the upstream may have worked on one: a timeout, a reset
	OutcomeLeft                     // the client left before the answer began, and the upstream request was cancelled
	OutcomeRefused                  // the upstream answered with an error
	OutcomeCut                      // the answer began but did not end: the client left, or the upstream broke off
	OutcomeCompleted                // the answer is complete
)

// OutcomeOf returns the outcome of an answer with that status. Status 504, and 524 from Cloudflare,
// is unknown: a gateway that timed out does not know whether its upstream worked.
func OutcomeOf(status int, whole bool) Outcome {
	switch {
	case status == 504 || status == 524:
		return OutcomeUnknown
	case status/100 != 2:
		return OutcomeRefused
	case whole:
		return OutcomeCompleted
	}
	return OutcomeCut
}

// A SettlementBasis says what a settled usage is based on. It has a closed set of values, so it can
// be a metrics label.
type SettlementBasis string

// The bases.
const (
	SettledAsReported  SettlementBasis = "told"      // reported by the upstream, and plausible
	SettledAsCounted   SettlementBasis = "counted"   // our count of the text received, and of the prompt if the upstream does not report it
	SettledAsEstimated SettlementBasis = "estimated" // our count of the prompt, and the longest answer that it allows
	SettledAsNothing   SettlementBasis = "nothing"   // nothing was generated
)

// hiddenPrompt is how many tokens upstreams may add to a prompt, such as 346 for tools (Anthropic).
// For small prompts that is more than twice our count.
const hiddenPrompt = 512

// A Settlement is what is known about a call that has ended.
type Settlement struct {
	Outcome  Outcome
	Reported Usage
	Found    UsageFinding
	// Prompt is our token count of the request as sent. Longest is the maximum for all of its
	// answers together, 0 if unknown.
	Prompt, Longest int64
	// HasExternalContent reports that the request refers to content outside of it, such as files or
	// an earlier answer, so that Prompt is not a bound.
	HasExternalContent bool
	// Counted is our count of the text received. It is used only if NeedsText returns true.
	Counted CountedUsage
}

// NeedsText reports whether Settle uses Counted.
func (s Settlement) NeedsText() bool {
	ended := s.Outcome == OutcomeCompleted || s.Outcome == OutcomeCut
	return ended && !(s.Outcome == OutcomeCompleted && s.Reported.Known && s.plausible())
}

// Settle returns the usage that a call is charged, by the rules of FAULTS.md §2, and what it is
// based on. implausible reports that the upstream's numbers cannot be true and our own count was
// used.
func (s Settlement) Settle() (u Usage, by SettlementBasis, implausible bool) {
	prompt := Usage{Input: s.Prompt}
	if s.Found == UsagePartial && s.plausibleInput() {
		prompt = s.Reported
	}
	estimate := prompt
	estimate.Output = s.Longest
	switch s.Outcome {
	case OutcomeNotSent, OutcomeRefused:
		return Usage{}, SettledAsNothing, false
	case OutcomeUnknown:
		return estimate, SettledAsEstimated, false
	case OutcomeLeft:
		return prompt, SettledAsCounted, false
	}
	implausible = s.Reported.Known && !s.plausible()
	if s.Reported.Known && !implausible && s.Outcome == OutcomeCompleted {
		return s.Reported, SettledAsReported, false
	}
	counted := s.Counted
	switch {
	case s.Reported.Known && !implausible: // a stream with usage in each event that was cut short
		u = s.Reported
		u.Output = max(u.Output, counted.Output)
		return u, SettledAsReported, false
	case s.Found == UsageUpstreamFailed && counted.Known && counted.Output == 0:
		return Usage{}, SettledAsNothing, false
	case !counted.Known:
		return estimate, SettledAsEstimated, implausible
	}
	if s.Longest > 0 {
		counted.Output = min(counted.Output, s.Longest)
	}
	prompt.Output = counted.Output
	return prompt, SettledAsCounted, implausible
}

// plausible reports whether the upstream's numbers are at most twice our own where those are a
// bound. An input of 0 is not plausible, because something was sent.
func (s Settlement) plausible() bool {
	return s.plausibleInput() && (s.Longest == 0 || s.Reported.Output <= 2*s.Longest)
}

func (s Settlement) plausibleInput() bool {
	in := s.Reported.Input
	return (in > 0 || s.Prompt == 0) && (in <= 2*s.Prompt+hiddenPrompt || s.HasExternalContent)
}
