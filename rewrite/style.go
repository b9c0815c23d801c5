package rewrite

// A Style says how sources and components stand in a prompt. It is part of a policy.
type Style struct {
	ComponentsFormat ComponentsFormat `json:",omitempty"`
	SourcesFormat    SourcesFormat    `json:",omitempty"`
	SourceOrder      SourceOrder      `json:",omitempty"`
	Neighbours       Neighbours       `json:",omitempty"`

	NoRules          bool `json:",omitempty"` // the sentences on excerpts, citations and grounding are left out
	Citations        Citations
	Grounding        Grounding
	SourceAttributes []string // of the six in DefaultStyle, in that order; id is always there
	Escape           Escape
}

// DefaultStyle is the style where nothing is configured.
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
	EscapeTags Escape = "tags" // only what could be read as a tag of ours
	EscapeAll  Escape = "all"  // every '<'
)

// ComponentsFormat says what stands around each component.
type ComponentsFormat string

// The formats of components.
const (
	ComponentsTags     ComponentsFormat = ""         // tags: <component name="glossary"> … </component>, and <sources>
	ComponentsHeadings ComponentsFormat = "headings" // "# GLOSSARY" above it
)

// SourcesFormat says what stands around each source.
type SourcesFormat string

// The formats of sources.
const (
	SourcesTags  SourcesFormat = ""      // tags: <source id="1" …> … </source> in <sources>
	SourcesPlain SourcesFormat = "plain" // "[1] Leave policy > Parental leave (handbook/leave.md)" above it, for models that were trained so
)

// SourceOrder says in which order sources stand in the sources element. Which of them go in does not
// depend on it: that is by relevance.
type SourceOrder string

// The orders.
const (
	SourcesByRelevance SourceOrder = ""         // best first
	SourcesAtEdges     SourceOrder = "edges"    // best first and last, least in the middle (Liu et al., "Lost in the Middle", 2023, arXiv 2307.03172)
	SourcesByDocument  SourceOrder = "document" // chunks of a document together, as they stand in it, documents by their best source
)

// Neighbours says which chunks beside a source go in with it where room is left.
type Neighbours string

// The kinds.
const (
	NeighboursAdjacent Neighbours = ""        // the one before and the one after, of whatever section
	NeighboursSection  Neighbours = "section" // a range of its section, read where room is left
	NeighboursOff      Neighbours = "off"
)

// Citations says whether the block asks the model to cite source ids.
type Citations string

// CitationsAuto is on, but off where the answer's format is not text.
const (
	CitationsAuto Citations = "auto"
	CitationsOn   Citations = "on"
	CitationsOff  Citations = "off"
)

// Grounding says how strictly the model is asked to stay with the sources.
type Grounding string

// The groundings.
const (
	GroundingDefault Grounding = "default"
	GroundingStrict  Grounding = "strict"
)
