package rewrite

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"sidenote/rewrite/chat"
)

// A MeteredRoute is a kind of endpoint; it determines which fields of a body limit the answer.
type MeteredRoute int

// The routes whose answers use tokens, and MeteredOther for all that use none.
const (
	MeteredOther MeteredRoute = iota
	MeteredChat
	MeteredCompletions
	MeteredResponses
	MeteredMessages // Anthropic's
	MeteredEmbeddings
)

// The names of edits in the ledger.
const (
	editIncludeUsage = "include-usage" // sets stream_options.include_usage to true
	editMaxTokens    = "max-tokens"    // caps the length of the answer
)

// defaultCompletion is the documented default of max_tokens on the completions route, so adding
// it as a cap changes nothing.
const defaultCompletion = 16

// OutputCaps bound the length of one answer, in tokens; 0 is no bound.
type OutputCaps struct {
	Tenant int // the policy's cap; higher limits of a request are lowered to it
	Model  int // the most that the model can generate
	// Default is the limit for requests without one.
	Default int
	// Completion means that the model takes max_completion_tokens and refuses max_tokens.
	Completion bool
}

// A MeterPolicy says how requests are changed so that their answers can be metered.
type MeterPolicy struct {
	OutputCaps
	IncludeUsage bool // add stream_options.include_usage to streams that lack it
	// Uncapped means that no limit is added to requests without one, because the upstream accepts
	// none. Their length is bounded by OutputCaps.Model, which must be what the model can
	// generate.
	Uncapped bool
}

// A MeteredRequest is a request whose token usage is metered.
type MeteredRequest struct {
	// MeterPolicy is set after ReadMetered, as it may depend on ModelName, and before the other
	// methods are called.
	MeterPolicy

	limits chat.Limits
	route  MeteredRoute
}

// ReadMetered parses a request body, which must outlive the result. Its error is a *BodyError
// from chat.ReadLimits.
func ReadMetered(route MeteredRoute, body []byte) (*MeteredRequest, error) {
	r := new(MeteredRequest)
	if err := r.ReadBy(new(chat.Parser), route, body); err != nil {
		return nil, err
	}
	return r, nil
}

// ReadBy is like ReadMetered but stores the result in r and uses p, which may have parsed the
// same body before; see chat.Parser.ReadLimits.
func (r *MeteredRequest) ReadBy(p *chat.Parser, route MeteredRoute, body []byte) error {
	*r = MeteredRequest{route: route}
	if route == MeteredMessages {
		return p.ReadMessageLimits(body, &r.limits)
	}
	return p.ReadLimits(body, &r.limits)
}

// ModelName returns the model named in the request, "" if none.
func (r *MeteredRequest) ModelName() string { return r.limits.Model }

// ServiceTier returns the request's service_tier, "" if none.
func (r *MeteredRequest) ServiceTier() string { return r.limits.ServiceTier }

// CachesForHour reports whether the request may ask for its prompt to be cached for an hour, which
// costs more than the usual few minutes.
func (r *MeteredRequest) CachesForHour() bool {
	body := r.limits.Body
	if bytes.Contains(body, []byte(`"1h"`)) {
		return true
	}
	return bytes.Contains(body, []byte(`\u00`)) && (bytes.Contains(body, []byte(`"\u0031h"`)) ||
		bytes.Contains(body, []byte(`"1\u0068"`)) || bytes.Contains(body, []byte(`"\u0031\u0068"`)))
}

// Input returns the JSON value of prompt or input, for routes other than MeteredChat; nil if
// there is none.
func (r *MeteredRequest) Input() []byte { return r.limits.Prompt.Of(r.limits.Body) }

// HidesUsage reports whether Edits asks for usage in the answer's stream though the client did
// not, so that it must be hidden from the client.
func (r *MeteredRequest) HidesUsage() bool {
	l := &r.limits
	if !r.IncludeUsage || !l.Stream || r.route != MeteredChat && r.route != MeteredCompletions {
		return false
	}
	return l.IncludeUsage.N == 0 && (l.StreamOptions.Kind == chat.KindObject || !l.StreamOptions.Given())
}

// Length returns the maximum number of tokens of one answer: the request's limit, lowered to the
// caps; 0 if there is neither. If the request has several limits the largest counts, since an
// upstream may read any of them.
func (r *MeteredRequest) Length() int {
	if r.route == MeteredEmbeddings || r.route == MeteredOther {
		return 0
	}
	length := 0
	for _, m := range r.members() {
		length = max(length, m.N)
	}
	switch {
	case length > 0:
	case r.route == MeteredCompletions && !r.Uncapped:
		length = defaultCompletion
	case r.Uncapped:
	default:
		length = r.Default
	}
	for _, most := range [...]int{r.Tenant, r.Model} {
		if most > 0 && (length == 0 || most < length) {
			length = most
		}
	}
	return length
}

// AddsCap reports whether Edits adds a limit to a request without one.
func (r *MeteredRequest) AddsCap() bool {
	if r.Uncapped || r.Length() == 0 {
		return false
	}
	return !slices.ContainsFunc(r.members(), chat.Member.Given)
}

// members returns the limits that upstreams read on this route.
func (r *MeteredRequest) members() []chat.Member {
	l := &r.limits
	switch r.route {
	case MeteredChat:
		return []chat.Member{l.MaxTokens, l.MaxCompletionTokens}
	case MeteredCompletions, MeteredMessages:
		return []chat.Member{l.MaxTokens}
	case MeteredResponses:
		return []chat.Member{l.MaxOutputTokens}
	}
	return nil
}

// A meteredAmount is the number of tokens of a request and all of its answers.
type meteredAmount struct {
	Input, Output int64
	Bounded       bool // Output is a bound; if not, nothing limits the answer, and it is 0
}

// Estimate returns the most that the request can use: the tokens of its prompt, additions
// included, and those of as many answers of maximum length as it asks for.
func (r *MeteredRequest) Estimate(prompt int64) meteredAmount {
	a := meteredAmount{Input: prompt, Bounded: true}
	if r.route == MeteredEmbeddings || r.route == MeteredOther {
		return a
	}
	answers := int64(1) // responses and messages have no n
	switch r.route {
	case MeteredChat:
		answers = int64(r.limits.Choices)
	case MeteredCompletions:
		answers = int64(r.limits.Choices) * int64(r.limits.Texts)
	}
	length := int64(r.Length())
	if a.Bounded = length > 0; a.Bounded {
		a.Output = math.MaxInt64
		if answers <= math.MaxInt64/length {
			a.Output = answers * length
		}
	}
	return a
}

// Edits returns the edits of the body, sorted by offset.
func (r *MeteredRequest) Edits() []Edit {
	edits := r.cap()
	if r.HidesUsage() {
		edits = append(edits, r.includeUsage())
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Offset - b.Offset })
	return edits
}

// cap lowers limits that are above the tenant's cap, and adds a limit if there is none.
func (r *MeteredRequest) cap() (edits []Edit) {
	length := r.Length()
	if length == 0 {
		return nil
	}
	digits, given := strconv.Itoa(length), false
	for _, m := range r.members() {
		given = given || m.Given()
		if r.Tenant > 0 && m.N > r.Tenant {
			edits = append(edits, replace(editMaxTokens, m.Span, digits))
		}
	}
	if given || r.Uncapped {
		return edits
	}
	name, m := "max_tokens", r.limits.MaxTokens
	switch {
	case r.route == MeteredResponses:
		name, m = "max_output_tokens", r.limits.MaxOutputTokens
	case r.route == MeteredChat && r.Completion:
		name, m = "max_completion_tokens", r.limits.MaxCompletionTokens
	}
	if m.Kind == chat.KindNull {
		return append(edits, replace(editMaxTokens, m.Span, digits))
	}
	return append(edits, r.insert(editMaxTokens, `"`+name+`":`+digits))
}

// includeUsage sets stream_options.include_usage to true.
func (r *MeteredRequest) includeUsage() Edit {
	const yes = `"include_usage":true`
	options := r.limits.StreamOptions
	switch {
	case r.limits.IncludeUsage.Kind != chat.KindMissing:
		return replace(editIncludeUsage, r.limits.IncludeUsage.Span, "true")
	case options.Kind == chat.KindNull:
		return replace(editIncludeUsage, options.Span, "{"+yes+"}")
	case options.Kind == chat.KindObject && r.limits.OtherOptions:
		return Edit{Name: editIncludeUsage, Offset: options.Start + 1, Insert: [][]byte{[]byte(yes + ",")}}
	case options.Kind == chat.KindObject:
		return Edit{Name: editIncludeUsage, Offset: options.Start + 1, Insert: [][]byte{[]byte(yes)}}
	}
	return r.insert(editIncludeUsage, `"stream_options":{`+yes+`}`)
}

func replace(name string, at chat.Span, text string) Edit {
	return Edit{Name: name, Offset: at.Start, Delete: at.End - at.Start, Insert: [][]byte{[]byte(text)}}
}

// insert adds a member before the first one of the body.
func (r *MeteredRequest) insert(name, member string) Edit {
	if !r.limits.Empty {
		member += ","
	}
	return Edit{Name: name, Offset: r.limits.First, Insert: [][]byte{[]byte(member)}}
}

// MergeEdits merges the edits of a rewrite with those of MeteredRequest.Edits, sorted by offset.
// They never overlap: a rewrite changes only messages and the field "sidenote".
func MergeEdits(rewritten, metered []Edit) []Edit {
	all := slices.Concat(metered, rewritten)
	slices.SortStableFunc(all, func(a, b Edit) int { return a.Offset - b.Offset })
	return all
}
