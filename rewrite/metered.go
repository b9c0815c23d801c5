package rewrite

import (
	"math"
	"slices"
	"strconv"

	"sidenote/rewrite/chat"
)

// A MeteredRoute says which members of a body count.
type MeteredRoute int

// The routes whose answers use tokens. On others a request uses none.
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
	editIncludeUsage = "include-usage" // stream_options.include_usage is true
	editMaxTokens    = "max-tokens"    // the length of the answer is capped
)

// defaultCompletion is the length of an answer on the route completions if the request has
// no max_tokens, as its reference says. So the cap that is put there changes nothing.
const defaultCompletion = 16

// OutputCaps bound the length of one answer, in tokens; 0 is no bound.
type OutputCaps struct {
	Tenant int // of the policy: a longer limit of the request is lowered to it
	Model  int // what the model can write at most
	// Default is the limit of requests that have none.
	Default int
	// Completion says that the model takes max_completion_tokens and refuses max_tokens.
	Completion bool
}

// A MeterPolicy says what is done to requests whose answers are metered.
type MeterPolicy struct {
	OutputCaps
	IncludeUsage bool // ask streams that do not tell what they used to do so
	// Uncapped gives answers without a limit none: the upstream takes no limit. Their length is
	// bounded by Caps.Model, which must be what the model can write.
	Uncapped bool
}

// A MeteredRequest is one whose answer is metered.
type MeteredRequest struct {
	// Policy is set after Read, as it may depend on ModelName, and before the other methods.
	MeterPolicy

	limits chat.Limits
	route  MeteredRoute
}

// ReadMetered reads a request's body, which must outlive the result. Its error is a
// *BodyError, as that of chat.ReadLimits.
func ReadMetered(route MeteredRoute, body []byte) (*MeteredRequest, error) {
	r := new(MeteredRequest)
	if err := r.ReadBy(new(chat.Parser), route, body); err != nil {
		return nil, err
	}
	return r, nil
}

// ReadBy reads into r as Read does, by a Parser that may have parsed the same body; see
// chat.Parser.ReadLimits.
func (r *MeteredRequest) ReadBy(p *chat.Parser, route MeteredRoute, body []byte) error {
	*r = MeteredRequest{route: route}
	if route == MeteredMessages {
		return p.ReadMessageLimits(body, &r.limits)
	}
	return p.ReadLimits(body, &r.limits)
}

// ModelName returns the model that the request names, "" if none.
func (r *MeteredRequest) ModelName() string { return r.limits.Model }

// ServiceTier returns the service_tier that the request asks for, "" if none.
func (r *MeteredRequest) ServiceTier() string { return r.limits.ServiceTier }

// Input returns the JSON of what the answer is made of on routes other than Chat: the
// value of prompt or input, nil if there is none.
func (r *MeteredRequest) Input() []byte { return r.limits.Prompt.Of(r.limits.Body) }

// HidesUsage tells whether the answer's stream will tell what it used because Edits asks for
// it, and not the client, from which it is to be hidden.
func (r *MeteredRequest) HidesUsage() bool {
	l := &r.limits
	if !r.IncludeUsage || !l.Stream || r.route != MeteredChat && r.route != MeteredCompletions {
		return false
	}
	return l.IncludeUsage.N == 0 && (l.StreamOptions.Kind == chat.KindObject || !l.StreamOptions.Given())
}

// Length returns how many tokens one answer may have: the request's limit, at most the
// caps; 0 if there is neither. Where the request has several limits the largest counts, as
// an upstream may read any of them.
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

// AddsCap tells whether Edits gives the answer a limit that the request does not have.
func (r *MeteredRequest) AddsCap() bool {
	if r.Uncapped || r.Length() == 0 {
		return false
	}
	return !slices.ContainsFunc(r.members(), chat.Member.Given)
}

// members returns the limits that an upstream reads on the route.
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

// An meteredAmount is a number of tokens of a request and all of its answers.
type meteredAmount struct {
	Input, Output int64
	Bounded       bool // Output is a bound; if not, nothing limits the answer, and it is 0
}

// Estimate returns what the request uses at most: the tokens of its prompt, with all that
// was added to it, and of as many answers of the longest length as it asks for.
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

// Edits returns what is changed of the body, sorted by offset.
func (r *MeteredRequest) Edits() []Edit {
	edits := r.cap()
	if r.HidesUsage() {
		edits = append(edits, r.includeUsage())
	}
	slices.SortStableFunc(edits, func(a, b Edit) int { return a.Offset - b.Offset })
	return edits
}

// cap lowers limits that are above Length, and adds one if there is none.
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

// includeUsage makes stream_options.include_usage true.
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

// insert puts a member before the first one.
func (r *MeteredRequest) insert(name, member string) Edit {
	if !r.limits.Empty {
		member += ","
	}
	return Edit{Name: name, Offset: r.limits.First, Insert: [][]byte{[]byte(member)}}
}

// MergeEdits joins the edits of a rewrite and those of Edits, sorted by offset. They do not
// overlap: a rewrite changes messages and the field "sidenote" only.
func MergeEdits(rewritten, metered []Edit) []Edit {
	all := slices.Concat(metered, rewritten)
	slices.SortStableFunc(all, func(a, b Edit) int { return a.Offset - b.Offset })
	return all
}
