package retrieval

import (
	"fmt"
	"strconv"
)

// An Excluded is a candidate that fell, and why.
type Excluded struct {
	Knowledge, Doc string // as in a Source, and so are the next ones
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

// ExcludeReason says at which stage a candidate fell. It is a closed list and a metric label.
type ExcludeReason string

// The reasons why a candidate is not among the sources of a search.
const (
	ExcludedScore    ExcludeReason = "score"        // under the threshold
	ExcludedDup      ExcludeReason = "duplicate"    // Jaccard >= 0.8 with a better one, which Detail names
	ExcludedDocument ExcludeReason = "per_document" // document has its share already
	ExcludedTopK     ExcludeReason = "top_k"        // list was full
	ExcludedRerank   ExcludeReason = "rerank"       // under the threshold of a Reranker
	ExcludedGrade    ExcludeReason = "grade"        // irrelevant
)

// DuplicateOf tells whether a candidate fell because another one, a chunk of a document in a base,
// says the same.
func (x *Excluded) DuplicateOf(knowledge, doc string, chunk int) bool {
	return x.Reason == ExcludedDup && x.Detail == duplicateDetail(x.Knowledge, knowledge, doc, chunk)
}

// duplicateDetail is the Detail of a chunk of a base that says the same as a better one, which is
// in the base better.
func duplicateDetail(knowledge, better, doc string, chunk int) string {
	if better != knowledge {
		return fmt.Sprintf("duplicate of %s#%d in %s", doc, chunk, better)
	}
	return fmt.Sprintf("duplicate of %s#%d", doc, chunk)
}

// scoreDetail writes "score 1.1 < 3.0", with as many decimals as it takes to
// show the difference.
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
