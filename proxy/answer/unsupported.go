package answer

import (
	"regexp"
	"strconv"
	"strings"

	"sidenote/retrieval/services"
)

// RefusedEdits is a set of kinds of edits that the application did not ask for.
type RefusedEdits uint8

// The kinds.
const (
	EditTools         RefusedEdits = 1 << iota // Sidenote's tools, and turns restored in the messages
	EditIncludeUsage                           // stream_options
	EditMaxTokens                              // a limit for an answer without one
	EditSystemMessage                          // a system message if the app sent none
	EditSources                                // sources in the messages
	EditCacheMark                              // a mark of what the upstream is to cache
	EditDiagnostics                            // a question why the upstream's cache missed
)

var names = [...]string{"tools", "include-usage", "max-tokens", "system-message", "sources", "cache-mark", "cache-diagnostics"}

// Has reports whether e has one of o.
func (e RefusedEdits) Has(o RefusedEdits) bool { return e&o != 0 }

// Names returns the names of the edits in e.
func (e RefusedEdits) Names() (list []string) {
	for i, name := range names {
		if e.Has(1 << i) {
			list = append(list, name)
		}
	}
	return list
}

// String returns the names joined by plus signs.
func (e RefusedEdits) String() string { return strings.Join(e.Names(), "+") }

// MayRefuseEdits reports whether an answer with that status can mean that an edit is refused.
func MayRefuseEdits(status int) bool { return status == 400 || status == 404 || status == 422 }

// An EditsRefusal is what an error answer says about edits.
type EditsRefusal struct {
	Named     RefusedEdits // edits that it may refuse
	Theirs    bool         // it refuses something that no edit adds
	Reasoning bool         // it mentions reasoning
	Unknown   bool         // it calls a parameter unknown or unsupported
	text      string
}

// appParams are parameters that no edit adds.
var appParams = []string{
	"temperature", "top_p", "top_k", "min_p", "frequency_penalty", "presence_penalty", "logit_bias", "logprobs", "top_logprobs", "seed", "stop", "n",
	"reasoning_effort", "reasoning", "verbosity", "thinking", "response_format", "modalities", "service_tier", "store", "metadata", "user",
}

// words match what errors call the edits, in their order. Nothing names sources.
var words = [...]*regexp.Regexp{
	regexp.MustCompile(`(?i)\btool|\bfunctions?\b|\bfunction[-_ ]?call`),
	regexp.MustCompile(`(?i)stream[-_ ]?options|include[-_ ]?usage`),
	regexp.MustCompile(`(?i)\bmax[-_ ]?(?:completion|output|new)?[-_ ]?tokens\b`),
	regexp.MustCompile(`(?i)\b(?:system|developer)\b[^.]{0,40}\b(?:role|message|prompt|instruction)|\brole\b[^.]{0,40}\b(?:system|developer)\b|\bmust alternate\b`),
	nil,
	regexp.MustCompile(`(?i)prompt[-_ ]?cache|cache[-_ ]?(?:control|breakpoint)`),
	regexp.MustCompile(`(?i)\bdiagnostics\b|cache[-_ ]?diagnos|previous[-_ ]?message[-_ ]?id`),
}

var (
	ofMessages           = regexp.MustCompile(`^(?:messages|input\b|prompt$|content$|str$|list\[)`) // the last two are types that pydantic expects of a content
	noModel              = regexp.MustCompile(`(?i)\b(?:model|deployment|resource|route|path|page|url)\b.*\b(?:not found|not exist|doesn.t exist|unknown)|\bnot[ _]found\b`)
	reasoningUnsupported = regexp.MustCompile(`(?i)\breason`)
	unknown              = regexp.MustCompile(`(?i)unsupported|not supported|not support|unrecognized|unknown|unexpected|not permitted|not allowed|extra|\binstead\b`)
	most                 = regexp.MustCompile(`(?i)(?:at most|up to|\bmax(?:imum)?\b|limit|less than|equal to|exceed\w*|allowed|[<>≤]=?|(?:\[|between )\d+ ?(?:,|and|to|-))\D{0,60}?\b(\d+(?:[,_]\d{3})*)`)
	window               = regexp.MustCompile(`(?i)context (?:length|window|size)(?: is| of|:)? \(?(\d+)`)
	inputUnsupported     = regexp.MustCompile(`(?i)(\d+) (?:input tokens|tokens? (?:of|in) (?:the )?(?:input|prompt|messages)|in the (?:messages|input|prompt))`)
)

// ReadRefusedEdits reads an error answer, whose body is not compressed.
func ReadRefusedEdits(status int, body []byte) (e EditsRefusal) {
	said := services.Parse(body)
	params := strings.Join(said.Params, "\n")
	e.text = said.Text
	all := e.text + "\n" + params
	for i, re := range words {
		if re != nil && re.MatchString(all) {
			e.Named |= 1 << i
		}
	}
	for _, param := range said.Params {
		switch {
		case strings.HasSuffix(param, "role"):
			e.Named |= EditSystemMessage
		case e.Named == 0 && ofMessages.MatchString(param):
			e.Named |= EditSources
		}
	}
	e.Reasoning, e.Unknown = reasoningUnsupported.MatchString(all), unknown.MatchString(e.text)
	_, theirs := services.RefusedParam(400, body, appParams...)
	e.Theirs = e.Named == 0 && (theirs || len(said.Params) > 0 || status == 404 && noModel.MatchString(e.text))
	return e
}

// slack is how many tokens the error's count of a prompt may differ from the next one.
const slack = 16

// Longest returns the longest answer, in tokens, that the error allows for a request that asked for
// n; 0 if the error does not say.
func (e *EditsRefusal) Longest(n int) int {
	if fits := e.Fitting(n); fits > 0 {
		return fits
	}
	longest := 0
	for _, m := range most.FindAllStringSubmatch(e.text, -1) {
		if tokens := atoi(m[1]); tokens < n {
			longest = max(longest, tokens)
		}
	}
	return longest
}

// Fitting returns the longest answer, below n tokens, that fits into the context window beside the
// prompt by the error's numbers; 0 if the error lacks one of them.
func (e *EditsRefusal) Fitting(n int) int {
	size, in := window.FindStringSubmatch(e.text), inputUnsupported.FindStringSubmatch(e.text)
	if size == nil || in == nil {
		return 0
	}
	return min(max(atoi(size[1])-atoi(in[1])-slack, 0), n-1)
}

func atoi(digits string) int {
	n, err := strconv.Atoi(strings.NewReplacer(",", "", "_", "").Replace(digits))
	if err != nil {
		return 0
	}
	return n
}
