package chunks

import (
	"fmt"
	"slices"
)

// A Fit is the order in which chunks are tried if not all of them fit.
type Fit string

// The fits. A chunk that does not fit is left out, but later, smaller ones may still be added.
// Messages are always in list order.
const (
	FitFirst    Fit = "first"    // in list order; the default
	FitRecent   Fit = "recent"   // from the end of the list
	FitPriority Fit = "priority" // highest priority first; with Truncate, chunks that must not be cut come before others
)

func (f Fit) known() bool { return f == FitFirst || f == FitRecent || f == FitPriority }

// Oversize says what to do with a chunk that is larger than the whole budget and must not be cut.
type Oversize string

// The values of Oversize.
const (
	OversizeExclude Oversize = "exclude" // exclude it as OutTooLarge; the default
	OversizeRefuse  Oversize = "refuse"  // return an error naming the chunk
)

func (o Oversize) known() bool { return o == OversizeExclude || o == OversizeRefuse }

// maxTypes is the maximum length of ExcludeTypes.
const maxTypes = 64

// DefaultMaxTokens is the budget if Options set none.
const DefaultMaxTokens = 16_000

// Options select chunks and set the budget. The zero Options select all, as far as they fit into
// DefaultMaxTokens.
type Options struct {
	MaxTokens     int    // budget of all messages including their overhead; 0 means DefaultMaxTokens
	SystemPrompt  string // precedes the system chunks, unchanged, and is never left out
	NoSystem      bool   // exclude chunks of type system (include_system: false)
	NoEnvironment bool   // exclude chunks of type environment (include_environment: false)
	ExcludeTypes  []Type
	Only          []string // ids of the chunks to select (include_only_chunk_ids); nil selects all
	Fit           Fit      // "" means FitFirst
	// Truncate cuts the first chunk, in the order of Fit, that does not fit; nothing after it is
	// added. If less than Builder.MinTruncated tokens would be left, the chunk is excluded
	// instead.
	Truncate bool
	Oversize Oversize // "" means OversizeExclude

	// Window is the part of the model's window that is left for the messages, if less than
	// MaxTokens; 0 is unknown, negative means none.
	Window int
	// Joined is the end of an existing system message to which the system prompt and the chunks
	// of role system are appended; nil creates a message of their own.
	Joined *Seam
}

// A Seam is the end of a text that is continued. Lead, mostly line breaks, separates that text
// from what follows. Before is all of the text, or its end from a seam on (see package tokens).
type Seam struct{ Before, Lead string }

// budget returns the tokens that the messages may use, and the reason for chunks that exceed
// them.
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

// checkWords returns an error if an option is invalid for any list of chunks.
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

// check returns an error if an option is invalid for these chunks.
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

// An ExcludeReason says why a chunk was left out. It is a closed list.
type ExcludeReason string

// The reasons.
const (
	OutBudget   ExcludeReason = "budget"              // does not fit into the rest of max_tokens
	OutWindow   ExcludeReason = "window"              // does not fit into the rest of the model's window
	OutTooLarge ExcludeReason = "too-large"           // larger than all of max_tokens
	OutBelowCut ExcludeReason = "below_cut"           // comes after the chunk that was cut
	OutType     ExcludeReason = "exclude_types"       // its type is excluded
	OutUnlisted ExcludeReason = "not_listed"          // not in include_only_chunk_ids
	OutNoSystem ExcludeReason = "include_system"      // include_system is false
	OutNoEnv    ExcludeReason = "include_environment" // include_environment is false
)

// excludes returns why the options exclude a chunk, "" if they do not. only is the set of ids in
// Only; nil if all are selected.
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
