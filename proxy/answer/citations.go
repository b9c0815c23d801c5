package answer

import (
	"cmp"
	"slices"

	"sidenote/proxy/panics"
	"sidenote/rewrite/chat"
)

// A Policy configures how citations in answers are handled. The zero Policy leaves answers alone.
type Policy struct {
	Annotate      bool // annotate the cited sources
	RemoveUnknown bool // remove citations of sources that were not given
}

// A CitedSource is a source that was given to the model under an id.
type CitedSource struct {
	Title string
	URL   string // passed on unchanged
	Text  string // for measuring Support; "" if unknown
	Quote string // the text that citations of the Messages API may show
}

// CitationOptions configure a CitationChecker. Given is required.
type CitationOptions struct {
	API chat.API // of the answer
	// SourceByID returns the source that was given under an id. It is called when a marker is read,
	// so that sources may be added while the answer streams, and once for each id that was given.
	SourceByID func(id int) (CitedSource, bool)
	// SearchResults returns the ids of the sources that are search results, which the model cites by
	// itself, and the number of the first one. Without ids, or if it is nil, texts are searched for
	// markers. It is called once, when the answer begins.
	SearchResults func() (first int, ids []int)
	// PromptMarkers are the markers in prompt texts that are not from our sources; nil if there are
	// none.
	PromptMarkers PromptMarkers
	// Terms returns the content terms of a text, for Support. If it is nil, Support is not
	// measured.
	Terms func(text string) []string
	// Panicked receives recovered panics. Nothing is checked after one.
	Panicked panics.Handler
	// CountOnly counts citations without adding annotations.
	CountOnly bool
	// RemoveUnknown removes markers with ids that were never given.
	RemoveUnknown bool
}

// A CitationChecker checks the citations in one answer, a stream or a JSON object, with all its
// texts. It is not safe for concurrent use.
type CitationChecker struct {
	options CitationOptions
	format  citedFormat
	texts   []*citedText        // one for each choice or output text, in order of appearance
	sources map[int]CitedSource // by id, those looked up so far
	claims  []claim
	report  CitationReport
	once    bool // a text gets one annotation for each source

	stream *stream // nil until Stage
	edits  []edit  // of events that were not passed on yet
}

// A citedFormat finds texts in the answers of an API and adds annotations to them.
type citedFormat interface {
	// whole returns the texts of a whole answer. ok is false if it has the form of another API.
	whole(body []byte) (texts []citationPart, ok bool)
	// event reads the next event of a stream, records edits of it, and returns events to insert
	// before it.
	event(s *stream, event []byte) (inserted [][]byte)
	// list is the name of the member with the annotations of a text.
	list() string
	// appendAnnotation appends the annotation of a source.
	appendAnnotation(dst []byte, a annotation, s CitedSource) []byte
}

// NewCitations returns a CitationChecker.
func NewCitations(o CitationOptions) *CitationChecker {
	c := &CitationChecker{options: o, sources: map[int]CitedSource{}}
	switch o.API {
	case chat.Responses:
		c.format = &responses{}
	case chat.Messages:
		c.format, c.once = &messages{checker: c}, true
	default:
		c.format = &completions{}
	}
	return c
}

// A CitationReport counts the citations of an answer and what was done with them.
type CitationReport struct {
	Cited       []Cited         `json:"cited,omitempty"` // sorted by id
	Annotations int             `json:"annotations"`     // number added
	Unknown     int             `json:"unknown_citations"`
	Unread      CitationsUnread `json:"unread,omitempty"` // why the answer was not read to its end; "" if it was
}

// Cited is a cited source.
type Cited struct {
	ID    int `json:"id"`
	Times int `json:"times"`
	// Support is the share of a statement's content terms that the source contains, from 0 to 1,
	// averaged over the statements that cite it. It is nil if no statement has terms.
	Support *float64 `json:"support,omitempty"`
}

// CitationsUnread is the reason why an answer, or the rest of it, was not read. The set of values
// is closed.
type CitationsUnread string

// The reasons. Whatever was not read is passed on unchanged.
const (
	UnreadEncoded  CitationsUnread = "encoded"    // the answer is compressed
	UnreadTooLarge CitationsUnread = "too-large"  // a JSON answer over MaxCitedJSON, or an event over MaxEvent
	UnreadMemory   CitationsUnread = "memory"     // too little memory for a JSON answer
	UnreadShape    CitationsUnread = "not-a-chat" // neither a stream nor JSON with choices, output or content
	UnreadCut      CitationsUnread = "cut"        // the upstream aborted a JSON answer
	UnreadBug      CitationsUnread = "bug"        // a panic, logged with its stack
)

// Times returns the number of citations of all sources.
func (r *CitationReport) Times() (n int) {
	for _, c := range r.Cited {
		n += c.Times
	}
	return n
}

// bug records that checking panicked.
func (c *CitationChecker) bug() { c.Skip(UnreadBug) }

// Skip records why the answer, or the rest of it, is not read. The first reason wins.
func (c *CitationChecker) Skip(why CitationsUnread) { c.report.Unread = cmp.Or(c.report.Unread, why) }

// Report returns the counts. Call it after the answer ended. Comparing statements with sources
// takes some microseconds each.
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
		if s, ok = c.options.SourceByID(id); ok {
			c.sources[id] = s
		}
	}
	return s, ok
}

// textOf returns the text with that number, or nil if there are too many texts.
func (c *CitationChecker) textOf(number int) *citedText {
	for _, t := range c.texts {
		if t.number == number {
			return t
		}
	}
	if len(c.texts) == maxChoices {
		return nil
	}
	t := &citedText{checker: c, number: number}
	c.texts = append(c.texts, t)
	return t
}

const (
	maxChoices     = 128  // OpenAI's limit of choices, taken for output texts too
	maxAnnotations = 1000 // per text; later markers are only counted
	maxClaims      = 1000 // statements that are compared with their sources
)
