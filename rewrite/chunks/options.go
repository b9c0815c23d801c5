package chunks

import (
	"fmt"
	"slices"
)

// A Fit says which chunks go in where not all of them fit.
type Fit string

// The fits. In each of them a chunk that does not fit is left out, and smaller ones that come
// later in its order may still go in. Messages are in the order of the list in any case.
const (
	FitFirst    Fit = "first"    // in the order of the list; the default
	FitRecent   Fit = "recent"   // from the end of the list
	FitPriority Fit = "priority" // the most important first, and chunks that may not be cut before others if Truncate
)

func (f Fit) known() bool { return f == FitFirst || f == FitRecent || f == FitPriority }

// Oversize says what becomes of a chunk that is larger than the whole budget and may not be cut.
type Oversize string

// The values of Oversize.
const (
	OversizeExclude Oversize = "exclude" // leave it out as OutTooLarge; the default
	OversizeRefuse  Oversize = "refuse"  // return an error that names the chunk
)

func (o Oversize) known() bool { return o == OversizeExclude || o == OversizeRefuse }

// maxTypes is how many types a list may name, with repetitions.
const maxTypes = 64

// DefaultMaxTokens is the budget where Options give none.
const DefaultMaxTokens = 16_000

// Options say what of the chunks goes in. The zero Options take all, as far as they fit into
// DefaultMaxTokens.
type Options struct {
	MaxTokens     int    // budget of all messages, what surrounds messages included; 0 is DefaultMaxTokens
	SystemPrompt  string // stands before the system chunks, as it is, and is never left out
	NoSystem      bool   // leaves out chunks of type system: include_system is false
	NoEnvironment bool   // leaves out chunks of type environment: include_environment is false
	ExcludeTypes  []Type
	Only          []string // ids of the chunks to take: include_only_chunk_ids; nil is all
	Fit           Fit      // "" is FitFirst
	// Truncate cuts the first chunk that does not fit, in the order of Fit, to the room that is
	// left; nothing goes in after it. One with less room than 100 tokens is left out.
	Truncate bool
	Oversize Oversize // "" is OversizeExclude

	// Window is what the model's window leaves for the messages if that is less than
	// MaxTokens; 0 is unknown, a negative number nothing.
	Window int
	// Joined is where a system message that is there already takes the system prompt and the
	// chunks of that role in; nil: they are a message of their own.
	Joined *Seam
}

// A Seam is the end of a text that goes on: Lead, line breaks mostly, stands between that text
// and what follows. Before is its end from a seam on (see package tokens), or all of it.
type Seam struct{ Before, Lead string }

// budget returns the tokens that the messages may take, and the reason of what does not fit.
func (o *Options) budget() (tokens int, full ExcludeReason) {
	tokens = o.maxTokens()
	if o.Window != 0 && o.Window < tokens {
		return max(o.Window, 0), OutWindow
	}
	return tokens, OutBudget
}

func (o *Options) maxTokens() int {
	if o.MaxTokens == 0 {
		return DefaultMaxTokens
	}
	return o.MaxTokens
}

// checkWords refuses options that mean nothing, whatever the chunks are.
func (o *Options) checkWords() error {
	if o.MaxTokens < 0 {
		return wrong("context.max_tokens", "%d is not a whole number from 1", o.MaxTokens)
	}
	if o.Fit != "" && !o.Fit.known() {
		return wrong("context.fit", "%.40q is not a way to fit; use first, recent or priority", o.Fit)
	}
	if o.Oversize != "" && !o.Oversize.known() {
		return wrong("context.oversize", "%.40q is not known; use exclude or refuse", o.Oversize)
	}
	if len(o.ExcludeTypes) > maxTypes {
		return wrong("context.exclude_types", "more than %d", maxTypes)
	}
	for i, t := range o.ExcludeTypes {
		if !t.known() {
			return wrong(fmt.Sprintf("context.exclude_types[%d]", i), "%.40q is not a type; use %s", t, typeNames())
		}
	}
	return nil
}

// check refuses options that mean nothing for these chunks.
func (o *Options) check(ids map[string]int) error {
	if err := o.checkWords(); err != nil {
		return err
	}
	if o.Only != nil && len(o.Only) == 0 {
		return wrong("context.include_only_chunk_ids", "names no chunk")
	}
	for i, id := range o.Only {
		if _, ok := ids[id]; !ok {
			return wrong(fmt.Sprintf("context.include_only_chunk_ids[%d]", i), "no chunk has the id %.140q", id)
		}
	}
	return nil
}

// An ExcludeReason says why a chunk is not in the messages. It is a closed list.
type ExcludeReason string

// The reasons.
const (
	OutBudget   ExcludeReason = "budget"              // more than is left of max_tokens
	OutWindow   ExcludeReason = "window"              // more than is left of the model's window
	OutTooLarge ExcludeReason = "too-large"           // larger than the whole of max_tokens
	OutBelowCut ExcludeReason = "below_cut"           // behind the one that was cut
	OutType     ExcludeReason = "exclude_types"       // its type is excluded
	OutUnlisted ExcludeReason = "not_listed"          // include_only_chunk_ids does not name it
	OutNoSystem ExcludeReason = "include_system"      // which is false
	OutNoEnv    ExcludeReason = "include_environment" // which is false
)

// excludes returns why the options leave out a chunk, "" if they do not. only is the set of
// Only.
func (o *Options) excludes(c *Chunk, only map[string]bool) ExcludeReason {
	switch {
	case only != nil && !only[c.ID]:
		return OutUnlisted
	case slices.Contains(o.ExcludeTypes, c.Type):
		return OutType
	case o.NoSystem && c.Type == System:
		return OutNoSystem
	case o.NoEnvironment && c.Type == Environment:
		return OutNoEnv
	}
	return ""
}
