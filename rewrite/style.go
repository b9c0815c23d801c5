package rewrite

// A Style says how sources and components are rendered in a prompt. It is part of a policy.
type Style struct {
	ComponentsFormat ComponentsFormat `json:",omitempty"`
	SourcesFormat    SourcesFormat    `json:",omitempty"`
	SourceOrder      SourceOrder      `json:",omitempty"`
	Neighbours       Neighbours       `json:",omitempty"`

	NoRules          bool `json:",omitempty"` // omit the sentences on excerpts, citations and grounding
	Citations        Citations
	Grounding        Grounding
	SourceAttributes []string // a subset of those in DefaultStyle, in that order; id is always shown
	Escape           Escape
}

// DefaultStyle returns the style of a policy without configuration.
func DefaultStyle() Style {
	return Style{
		Citations:        CitationsAuto,
		Grounding:        GroundingDefault,
		SourceAttributes: []string{"id", "type", "kb_id", "doc_id", "name", "section"},
		Escape:           EscapeTags,
	}
}

// Escape says how much of a document's markup is neutralised.
type Escape string

// The escapes.
const (
	EscapeTags Escape = "tags" // only what could be read as one of Sidenote's tags
	EscapeAll  Escape = "all"  // every '<'
)

// ComponentsFormat says how each component is delimited.
type ComponentsFormat string

// The formats of components.
const (
	ComponentsTags     ComponentsFormat = ""         // tags: <component name="glossary"> … </component>, and <sources>
	ComponentsHeadings ComponentsFormat = "headings" // "# GLOSSARY" above each
)

// SourcesFormat says how each source is delimited.
type SourcesFormat string

// The formats of sources.
const (
	SourcesTags  SourcesFormat = ""      // tags: <source id="1" …> … </source> in <sources>
	SourcesPlain SourcesFormat = "plain" // "[1] Leave policy > Parental leave (handbook/leave.md)" above each
)

// SourceOrder says in which order sources appear in the prompt. It does not affect which are
// selected: that is by relevance.
type SourceOrder string

// The orders.
const (
	SourcesByRelevance SourceOrder = ""         // best first
	SourcesAtEdges     SourceOrder = "edges"    // best first and last, least in the middle (Liu et al., "Lost in the Middle", 2023, arXiv 2307.03172)
	SourcesByDocument  SourceOrder = "document" // chunks of a document together and in its order, documents by their best source
)

// Neighbours says which chunks next to a source are added with it if room is left.
type Neighbours string

// The kinds.
const (
	NeighboursAdjacent Neighbours = ""        // one before and one after, in any section
	NeighboursSection  Neighbours = "section" // several of its section, read only if room is left
	NeighboursOff      Neighbours = "off"
)

// Citations says whether the block asks the model to cite source ids.
type Citations string

// CitationsAuto means on, but off if response_format is not text.
const (
	CitationsAuto Citations = "auto"
	CitationsOn   Citations = "on"
	CitationsOff  Citations = "off"
)

// Grounding says how strictly the model is told to keep to the sources.
type Grounding string

// The groundings.
const (
	GroundingDefault Grounding = "default"
	GroundingStrict  Grounding = "strict"
)
