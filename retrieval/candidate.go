package retrieval

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"
)

// A candidate is a chunk during selection. Its hit or source belongs to an answer that may be
// shared, so it must not be modified.
type candidate struct {
	hit       *Hit    // if the engine keeps the text; nil if the source has it
	source    *Source // nil for a Hit
	knowledge string  // id of its base
	from      int     // index of its answer
	at        int     // its index among all candidates as found
	own       float64 // score of its engine
	relevance float64 // comparable between bases
	ranks     float64 // sum of its reciprocal ranks, with FusionRanks
	beyond    float64 // score of an engine without a floor, for ties where relevance is capped below 1
	threshold float64 // minimum score in its base
	score     float64 // from a Reranker
	judged    bool    // scored by a Reranker
	further   bool    // found by a query of a plan
	strength  float64 // by which it is ranked, see weighEvidence; 0 if by relevance
	document  int     // index of its document in selection.byDocument
	base      int     // index of its base in selection.byBase
	text      *content
	dossier
}

// An exclusion is an excluded candidate and the reason.
type exclusion struct {
	*candidate
	reason ExcludeReason
	detail string
}

// write fills in x, except for the label.
func (f *exclusion) write(x *Excluded) {
	x.Knowledge, x.Score, x.Relevance, x.Strength, x.RerankScore = f.knowledge, f.own, f.relevance, f.shownStrength(), f.rerankScore()
	x.Reason, x.Detail, x.MinScore = f.reason, f.detail, 0
	if f.reason == ExcludedScore {
		x.MinScore = f.threshold
	}
	if h := f.hit; h != nil {
		x.Arm, x.ByArm, x.At = h.Arm, h.ByArm, h.At
	} else {
		x.Arm, x.ByArm, x.At = f.source.Arm, f.source.ByArm, f.source.At
	}
}

// A content is what a text is compared by if its glance does not decide.
type content struct {
	sketch Sketch
	made   bool     // sketched here, since the engine had no sketch
	terms  []string // if made: its terms, in order
	sorted []string // distinct terms; nil until compared
}

// set returns the distinct terms, sorted.
func (c *content) set() []string {
	if c.sorted == nil {
		c.sorted = termSet(c.terms)
	}
	return c.sorted
}

// result returns the source for the answer; the text of a hit is still to be read.
func (c *candidate) result() Source {
	var src Source
	if c.source != nil {
		src = *c.source
	} else {
		src = Source{Type: typeRAG, Knowledge: c.knowledge, Score: c.own, Arm: c.hit.Arm, ByArm: c.hit.ByArm, At: c.hit.At}
	}
	src.Relevance, src.Strength, src.RerankScore, src.Date = c.relevance, c.shownStrength(), c.rerankScore(), c.date()
	return src
}

// shownStrength returns the strength as a Source has it: 0 if a Reranker decided.
func (c *candidate) shownStrength() float32 {
	if c.judged {
		return 0
	}
	return float32(c.strength)
}

// rerankScore returns a copy of the rerank score, since an answer outlives the candidate.
func (c *candidate) rerankScore() *float64 {
	if !c.judged {
		return nil
	}
	score := c.score
	return &score
}

// A Hit is a chunk found by an engine that keeps its text.
type Hit struct {
	At    Place
	Base  int // index of its base in Result.Bases
	Score float64
	Arm   Arm       // the arm that contributes most to Score, if the engine has several
	ByArm ArmScores // scores by arm; zero if Arm is ArmNone
	Mark
}

// A Place says where the engine keeps the text of a hit. Only that engine interprets the numbers;
// they are invalid in another generation of the base.
type Place struct {
	Kept          bool // the engine reads the text on demand; false: the source has it
	Segment, Text int
}

// Append encodes a place.
func (p Place) Append(b []byte) []byte {
	if !p.Kept {
		return append(b, 0)
	}
	b = binary.AppendUvarint(b, uint64(p.Segment)+1) //nolint:gosec // counted from 0
	return binary.AppendUvarint(b, uint64(p.Text))   //nolint:gosec // likewise
}

// ReadPlace reads what Append wrote.
func ReadPlace(r *BinaryReader) Place {
	segment := r.Uvarint()
	if segment == 0 {
		return Place{}
	}
	return Place{Kept: true, Segment: int(segment - 1), Text: int(r.Uvarint())} //nolint:gosec // a hint, see Locator
}

// A Mark holds what an engine stored about a text at ingest. It tells apart most texts that are
// not duplicates.
type Mark struct {
	Glance   glance
	Bytes    int    // length of the text
	Sum      uint32 // equal texts of one engine have equal sums
	Document int    // its number in the segment; chunks of one document have the same Segment and Document
	Undated  bool   // the labels of the document say nothing of its versions, see MaybeEdition
}

// A Label names a hit for people. Its bytes belong to the engine and must not be retained.
type Label struct {
	Doc           []byte // id of the document in its base
	Chunk         int    // ordinal of the chunk in its document, from 0
	Name, Section []byte // of the document; the heading path below it
	Attributes    []byte // of the document, as JSON; nil if the engine has none
}

// An Explained tells why a search of some bases found its hits. Its scores are comparable only
// with one another.
type Explained struct {
	Floor float64         // minimum score for answers to the question; 0: none
	Terms []ExplainedTerm // of the question and the turns that joined it, highest score first
	Hits  []ExplainedHit  // best first, at most as many as the query asks for
}

// An ExplainedTerm is a term of the index: the stem of a word, or a name as written.
type ExplainedTerm struct {
	Text string
	// Typed is the word of the question that no text has, and for which Text was searched, with
	// commas between alternatives; "" for other terms.
	Typed string
	// Score is what the term adds to the score of a hit. In Explained.Terms it is about what a
	// text of average length gets for one occurrence; 0 if no text has the term.
	Score float64
}

// An ExplainedHit is a chunk and what its score is made of: its terms, highest score first, and
// its document. If the question has very many terms, only the rarest are included, as in a search.
type ExplainedHit struct {
	Knowledge, Doc string
	Chunk          int
	Terms          []ExplainedTerm
	// Document is what is added to the score of the terms because the document as a whole matches
	// more of the question; negative if the chunk is a further one of its document.
	Document float64

	// In bases with vectors, where the score fuses words and cosine:
	Arm    Arm     // the one that contributes most; "" if only words were searched
	Words  float64 // score of its terms and its document; 0 if not found by words
	Cosine float64 // 0 without a vector
	Weight float64 // of the cosine; words have the rest
}

// A Passage is a range of chunks of one document.
type Passage struct {
	Knowledge, Doc string
	First, End     int // ordinals of its chunks, End exclusive; an End beyond the document means its end
}

// A Reader reads further chunks of documents that a search has found.
type Reader interface {
	// Passage returns the chunks of p, in order, as sources without scores and neighbours.
	//
	// q must be able to find the document: it is in one of q.Bases, whose generations are ignored,
	// and passes q.Filter. Otherwise the error is ErrNoHit, whether the document is hidden or does
	// not exist. Other errors wrap ErrUnavailable.
	Passage(ctx context.Context, q Query, p Passage) ([]Source, error)
}

// An Excluded is a candidate that is not among the sources, and why.
type Excluded struct {
	Knowledge, Doc string // these and the following as in a Source
	Chunk          int
	Name, Section  string
	Score          float64
	Relevance      float64
	Strength       float32
	Arm            Arm
	ByArm          ArmScores
	RerankScore    *float64
	GradeScore     *float64
	At             Place

	Reason   ExcludeReason
	MinScore float64 // with ExcludedScore: the minimum score
	Detail   string  // with other reasons, for people: "duplicate of leave.md#3"
}

// Why returns the reason for people, such as "score 1.1 < 3.0".
func (x *Excluded) Why() string {
	if x.Reason == ExcludedScore {
		return scoreDetail(x.Score, x.MinScore)
	}
	return x.Detail
}

// ExcludeReason is the stage that excluded a candidate. It is a closed list and a metric label.
type ExcludeReason string

// The reasons for which a candidate is not among the sources of a search.
const (
	ExcludedScore    ExcludeReason = "score"        // below the threshold
	ExcludedDup      ExcludeReason = "duplicate"    // says the same as a better one, named by Detail
	ExcludedVariant  ExcludeReason = "variant"      // enough variants of the text are sources
	ExcludedVersion  ExcludeReason = "version"      // an older version of a document, named by Detail
	ExcludedDocument ExcludeReason = "per_document" // limit per document reached
	ExcludedTopK     ExcludeReason = "top_k"        // list was full
	ExcludedRerank   ExcludeReason = "rerank"       // below the threshold of the Reranker
	ExcludedGrade    ExcludeReason = "grade"        // irrelevant
)

// DuplicateOf reports whether the candidate was excluded as a duplicate of the given chunk.
func (x *Excluded) DuplicateOf(knowledge, doc string, chunk int) bool {
	return x.Reason == ExcludedDup && x.Detail == duplicateDetail(x.Knowledge, knowledge, doc, chunk)
}

// duplicateDetail is the Detail of a chunk in the base knowledge that duplicates a chunk in the
// base better.
func duplicateDetail(knowledge, better, doc string, chunk int) string {
	if better != knowledge {
		return fmt.Sprintf("duplicate of %s#%d in %s", doc, chunk, better)
	}
	return fmt.Sprintf("duplicate of %s#%d", doc, chunk)
}

// scoreDetail returns text such as "score 1.1 < 3.0", with as many decimals as are needed to show
// the difference.
func scoreDetail(score, threshold float64) string {
	const most = 6
	for decimals := 1; ; decimals++ {
		a := strconv.FormatFloat(score, 'f', decimals, 64)
		b := strconv.FormatFloat(threshold, 'f', decimals, 64)
		if a != b || decimals == most {
			return "score " + a + " < " + b
		}
	}
}
