package retrieval

import "sidenote/retrieval/hit"

// What an engine finds, and what becomes of it; see package hit.
type (
	Hit           = hit.Hit
	Place         = hit.Place
	Mark          = hit.Mark
	Label         = hit.Label
	Excluded      = hit.Excluded
	ExcludeReason = hit.ExcludeReason
	Fallen        = hit.Fallen
)

// The reasons why a candidate is not among the sources of a Result.
const (
	ExcludedScore    = hit.ExcludedScore
	ExcludedDup      = hit.ExcludedDup
	ExcludedDocument = hit.ExcludedDocument
	ExcludedTopK     = hit.ExcludedTopK
	ExcludedRerank   = hit.ExcludedRerank
	ExcludedGrade    = hit.ExcludedGrade
)

// FallenOf returns candidates that fell.
func FallenOf(list []Excluded) Fallen { return hit.FallenOf(list) }

// ExcludedSource is a candidate that fell, as a source without its text.
func ExcludedSource(x *Excluded) Source {
	src := Source{
		Type: typeRAG, Knowledge: x.Knowledge, Doc: x.Doc, Chunk: x.Chunk, Name: x.Name, Section: x.Section,
		Score: x.Score, Relevance: x.Relevance, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore, At: x.At,
	}
	if x.GradeScore != nil {
		src.Grade = GradeIrrelevant
	}
	return src
}

// DuplicateOf tells whether x fell because s, a candidate too, says the same.
func DuplicateOf(x *Excluded, s *Source) bool { return x.DuplicateOf(s.Knowledge, s.Doc, s.Chunk) }
