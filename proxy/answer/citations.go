package answer

import (
	"cmp"
	"slices"

	"sidenote/proxy/panics"
)

// A Policy says what becomes of the citations in answers. The zero Policy leaves answers alone.
type Policy struct {
	Annotate      bool // sources that are cited are annotated
	RemoveUnknown bool // citations of what was never given are removed
}

// A CitedSource is one that was given under an id.
type CitedSource struct {
	Title string
	URL   string // shown as it is
	Text  string // by which Support is measured; "" if it is not known
}

// CitationOptions say what a CitationChecker does with markers. Given must be there.
type CitationOptions struct {
	// Given returns the source that was given under an id. It is called when a marker is met, so
	// more sources may be given while the answer goes on; once for each id that was given.
	Given func(id int) (CitedSource, bool)
	// Own are the markers in what the model was told by others; nil for none.
	Own OwnMarkers
	// Terms returns the content terms of a text, for Support; nil: that is not measured.
	Terms func(text string) []string
	// Panicked is told of bugs, behind which nothing is checked.
	Panicked panics.Handler
	// CountOnly makes no annotations.
	CountOnly bool
	// RemoveUnknown removes markers of ids that were never given from the text.
	RemoveUnknown bool
}

// A CitationChecker checks one answer of a chat, which is a stream or one JSON text, with all its
// choices. Only one goroutine may use it at a time.
type CitationChecker struct {
	options CitationOptions
	texts   []*citedText        // of the choices, as they came
	sources map[int]CitedSource // that were cited
	claims  []claim
	report  CitationReport

	parser parser
	stream *stream // nil until Stage
	cuts   []cut   // of events that were not passed on yet
}

// NewCitations returns a CitationChecker.
func NewCitations(o CitationOptions) *CitationChecker {
	return &CitationChecker{options: o, sources: map[int]CitedSource{}}
}

// A CitationReport counts the citations of an answer and what was done with them.
type CitationReport struct {
	Cited       []Cited         `json:"cited,omitempty"` // by id
	Annotations int             `json:"annotations"`     // that were added
	Unknown     int             `json:"unknown_citations"`
	Unread      CitationsUnread `json:"unread,omitempty"` // why the answer was not read to its end; "" if it was
}

// Cited is a source that was cited.
type Cited struct {
	ID    int `json:"id"`
	Times int `json:"times"`
	// Support is the share of a statement's content terms that the source has, from 0 to 1, as
	// the mean of the statements that cite it; nil where none has terms.
	Support *float64 `json:"support,omitempty"`
}

// CitationsUnread says why an answer was not read. It is a closed list.
type CitationsUnread string

// The reasons. What was not read passes as it came.
const (
	UnreadEncoded  CitationsUnread = "encoded"    // it came compressed
	UnreadTooLarge CitationsUnread = "too-large"  // a JSON text beyond MaxJSON, or an event beyond MaxEvent
	UnreadMemory   CitationsUnread = "memory"     // there is too little for a JSON text
	UnreadShape    CitationsUnread = "not-a-chat" // neither a stream nor JSON with choices
	UnreadCut      CitationsUnread = "cut"        // the upstream broke off a JSON text
	UnreadBug      CitationsUnread = "bug"        // the log has its stack
)

// Times is how often sources were cited.
func (r *CitationReport) Times() (n int) {
	for _, c := range r.Cited {
		n += c.Times
	}
	return n
}

// bug notes a bug.
func (c *CitationChecker) bug() { c.Skip(UnreadBug) }

// Skip notes that the answer, or the rest of it, is not read.
func (c *CitationChecker) Skip(why CitationsUnread) { c.report.Unread = cmp.Or(c.report.Unread, why) }

// Report returns what came of the answer. Call it when that has ended: it compares statements
// with sources, which takes some microseconds for each.
func (c *CitationChecker) Report() CitationReport {
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
func (c *CitationChecker) source(id int) (CitedSource, bool) {
	s, ok := c.sources[id]
	if !ok {
		if s, ok = c.options.Given(id); ok {
			c.sources[id] = s
		}
	}
	return s, ok
}

// textOf returns the text of a choice.
func (c *CitationChecker) textOf(choice int) *citedText {
	for _, t := range c.texts {
		if t.choice == choice {
			return t
		}
	}
	if len(c.texts) == maxChoices {
		return nil
	}
	t := &citedText{checker: c, choice: choice}
	c.texts = append(c.texts, t)
	return t
}

const (
	maxChoices     = 128  // as many as OpenAI allows
	maxAnnotations = 1000 // of an answer; later markers are counted only
	maxClaims      = 1000 // that are compared with their sources
)
