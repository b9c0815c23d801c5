// Package citations reads the answer to a chat as it passes and checks its citations: markers
// such as [1], [1][3], [1, 3] or 【1】, which name sources by their ids in the prompt. A marker of
// a source that was given becomes an annotation of the message; one of an id that was never
// given is counted and, if wanted, removed.
//
// It knows of no request, base or policy: sources come from a function.
package citations

import (
	"cmp"
	"slices"

	"sidenote/proxy/panics"
)

// A Source is one that was given under an id.
type Source struct {
	Title string
	URL   string // shown as it is
	Text  string // by which Support is measured; "" if it is not known
}

// Options say what a Checker does with markers. Given must be there.
type Options struct {
	// Given returns the source that was given under an id. It is called when a marker is met, so
	// more sources may be given while the answer goes on; once for each id that was given.
	Given func(id int) (Source, bool)
	// Own are the markers in what the model was told by others; nil for none.
	Own Own
	// Terms returns the content terms of a text, for Support; nil: that is not measured.
	Terms func(text string) []string
	// Panicked is told of bugs, behind which nothing is checked.
	Panicked panics.Handler
	// CountOnly makes no annotations.
	CountOnly bool
	// RemoveUnknown removes markers of ids that were never given from the text.
	RemoveUnknown bool
}

// A Checker checks one answer of a chat, which is a stream or one JSON text, with all its
// choices. Only one goroutine may use it at a time.
type Checker struct {
	options Options
	texts   []*text        // of the choices, as they came
	sources map[int]Source // that were cited
	claims  []claim
	report  Report

	parser parser
	stream *stream // nil until Stage
	cuts   []cut   // of events that were not passed on yet
}

// New returns a Checker.
func New(o Options) *Checker { return &Checker{options: o, sources: map[int]Source{}} }

// A Report is what came of the citations of an answer.
type Report struct {
	Cited       []Cited `json:"cited,omitempty"` // by id
	Annotations int     `json:"annotations"`     // that were added
	Unknown     int     `json:"unknown_citations"`
	Unread      Unread  `json:"unread,omitempty"` // why the answer was not read to its end; "" if it was
}

// Cited is a source that was cited.
type Cited struct {
	ID    int `json:"id"`
	Times int `json:"times"`
	// Support is the share of a statement's content terms that the source has, from 0 to 1, as
	// the mean of the statements that cite it; nil where none has terms.
	Support *float64 `json:"support,omitempty"`
}

// Unread says why an answer was not read. It is a closed list.
type Unread string

// The reasons. What was not read passes as it came.
const (
	UnreadEncoded  Unread = "encoded"    // it came compressed
	UnreadTooLarge Unread = "too-large"  // a JSON text beyond MaxJSON, or an event beyond events.MaxEvent
	UnreadMemory   Unread = "memory"     // there is too little for a JSON text
	UnreadShape    Unread = "not-a-chat" // neither a stream nor JSON with choices
	UnreadCut      Unread = "cut"        // the upstream broke off a JSON text
	UnreadBug      Unread = "bug"        // the log has its stack
)

// Times is how often sources were cited.
func (r *Report) Times() (n int) {
	for _, c := range r.Cited {
		n += c.Times
	}
	return n
}

// bug notes a bug.
func (c *Checker) bug() { c.Skip(UnreadBug) }

// Skip notes that the answer, or the rest of it, is not read.
func (c *Checker) Skip(why Unread) { c.report.Unread = cmp.Or(c.report.Unread, why) }

// Report returns what came of the answer. Call it when that has ended: it compares statements
// with sources, which takes some microseconds for each.
func (c *Checker) Report() Report {
	r := c.report
	r.Cited = make([]Cited, 0, len(c.sources))
	for id := range c.sources {
		r.Cited = append(r.Cited, Cited{ID: id})
	}
	slices.SortFunc(r.Cited, func(a, b Cited) int { return cmp.Compare(a.ID, b.ID) })
	terms := c.sourceTerms()
	for i := range r.Cited {
		cited, sum, measured := &r.Cited[i], 0.0, 0
		for _, claim := range c.claims {
			if claim.id != cited.ID {
				continue
			}
			cited.Times++
			if c.options.Terms == nil || c.sources[claim.id].Text == "" {
				continue
			}
			if share, ok := claim.support(c.options.Terms, terms); ok {
				sum += share
				measured++
			}
		}
		if measured > 0 {
			mean := sum / float64(measured)
			cited.Support = &mean
		}
	}
	return r
}

// source returns the source that was given under an id.
func (c *Checker) source(id int) (Source, bool) {
	s, ok := c.sources[id]
	if !ok {
		if s, ok = c.options.Given(id); ok {
			c.sources[id] = s
		}
	}
	return s, ok
}

// textOf returns the text of a choice.
func (c *Checker) textOf(choice int) *text {
	for _, t := range c.texts {
		if t.choice == choice {
			return t
		}
	}
	if len(c.texts) == maxChoices {
		return nil
	}
	t := &text{checker: c, choice: choice}
	c.texts = append(c.texts, t)
	return t
}

const (
	maxChoices     = 128  // as many as OpenAI allows
	maxAnnotations = 1000 // of an answer; later markers are counted only
	maxClaims      = 1000 // that are compared with their sources
)
