package retrieval

// An Excluded is a candidate that fell, and why.
type Excluded struct {
	Knowledge, Doc string // as in Source, and so are the next ones
	Chunk          int
	Name, Section  string
	Score          float64
	Relevance      float64
	Arm            Arm
	ByArm          ArmScores
	RerankScore    *float64
	GradeScore     *float64
	At             Place

	Reason ExcludeReason
	Least  float64 // of ExcludedScore: the score that it would take
	Detail string  // of others, for people: "duplicate of leave.md#3"
}

// Why says for people why the candidate fell, such as "score 1.1 < 3.0".
func (x *Excluded) Why() string {
	if x.Reason == ExcludedScore {
		return scoreDetail(x.Score, x.Least)
	}
	return x.Detail
}

// Source is the candidate without its text.
func (x *Excluded) Source() Source {
	src := Source{
		Type: typeRAG, Knowledge: x.Knowledge, Doc: x.Doc, Chunk: x.Chunk, Name: x.Name, Section: x.Section,
		Score: x.Score, Relevance: x.Relevance, Arm: x.Arm, ByArm: x.ByArm, RerankScore: x.RerankScore, GradeScore: x.GradeScore, At: x.At,
	}
	if x.GradeScore != nil {
		src.Grade = GradeIrrelevant
	}
	return src
}

// ExcludeReason says at which stage a candidate fell. It is a closed list and a
// metric label.
type ExcludeReason string

// The reasons why a candidate is not among the sources of a Result.
const (
	ExcludedScore    ExcludeReason = "score"        // under the threshold
	ExcludedDup      ExcludeReason = "duplicate"    // Jaccard >= 0.8 with a better one, which Detail names
	ExcludedDocument ExcludeReason = "per_document" // document has its share already
	ExcludedTopK     ExcludeReason = "top_k"        // list was full
	ExcludedRerank   ExcludeReason = "rerank"       // under the threshold of a Reranker
	ExcludedGrade    ExcludeReason = "grade"        // irrelevant
)

// DuplicateOf tells whether a candidate fell because s, a candidate too, says the same.
func (x Excluded) DuplicateOf(s Source) bool {
	return x.Reason == ExcludedDup && x.Detail == duplicateDetail(x.Knowledge, &s)
}
