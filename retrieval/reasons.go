package retrieval

import (
	"fmt"
	"strconv"
)

// An Excluded is a candidate that is not among the sources, and why.
type Excluded struct {
	Knowledge, Doc string // these and the following as in a Source
	Chunk          int
	Name, Section  string
	Score          float64
	Relevance      float64
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
	ExcludedDup      ExcludeReason = "duplicate"    // Jaccard >= 0.8 with a better one, named by Detail
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
