package retrieval

import (
	"encoding/binary"
	"math"
)

// An Arm is one of the ways in which an engine finds candidates.
type Arm string

// The arms. Sources of an engine with only one way have ArmNone.
const (
	ArmNone   Arm = ""
	ArmWords  Arm = "bm25"   // by words
	ArmVector Arm = "vector" // by the cosine of embeddings
	ArmGiven  Arm = "given"  // supplied by a caller who does not say how it was found
)

// ArmScores holds the scores of a candidate by each arm, on the arm's own scale.
type ArmScores struct {
	Words  float32 `json:"bm25,omitempty"`   // 0: not found by words
	Vector float32 `json:"vector,omitempty"` // cosine; 0: it has no vector
}

// Scores holds all scores of a candidate; the fields are those of a Source.
type Scores struct {
	Score, Relevance float64
	Strength         float32
	Arm              Arm
	ByArm            ArmScores
	RerankScore      *float64
	GradeScore       *float64
}

// The flags of packed scores.
const (
	scoreScaled    = 1 << iota // the score is an integer multiple of scoreUnit
	scoreRelevance             // the relevance follows from score and floor
	scoreNone                  // the relevance is 0
	scoreWords                 // the arm is ArmWords; the scores by arm follow
	scoreVector                // the arm is ArmVector, likewise
	scoreReranked              // a reranker's score follows
	scoreGraded                // a grader's score follows
	scoreStrength              // the strength follows
)

// scoreUnit is the unit of the embedded engine's scores. A multiple of it is written as an
// integer, which takes four bytes instead of eight.
const scoreUnit = 1.0 / (1 << 20)

// Append encodes the scores of a search with the given floor, without loss and in few bytes.
func (s *Scores) Append(b []byte, floor float64) []byte {
	flags, units := byte(0), int64(0)
	if scaled := s.Score / scoreUnit; math.Abs(scaled) < 1<<53 {
		if units = int64(scaled); identical(float64(units)*scoreUnit, s.Score) {
			flags |= scoreScaled
		}
	}
	switch {
	case identical(s.Relevance, 0):
		flags |= scoreNone
	case identical(s.Relevance, Relevance(s.Score, floor)):
		flags |= scoreRelevance
	}
	switch s.Arm {
	case ArmWords:
		flags |= scoreWords
	case ArmVector:
		flags |= scoreVector
	}
	if s.RerankScore != nil {
		flags |= scoreReranked
	}
	if s.GradeScore != nil {
		flags |= scoreGraded
	}
	if s.Strength != 0 {
		flags |= scoreStrength
	}
	b = append(b, flags)
	if flags&scoreScaled != 0 {
		b = binary.AppendVarint(b, units)
	} else {
		b = AppendFloat(b, s.Score)
	}
	if flags&(scoreNone|scoreRelevance) == 0 {
		b = AppendFloat(b, s.Relevance)
	}
	if flags&(scoreWords|scoreVector) != 0 {
		b = appendFloat32(appendFloat32(b, s.ByArm.Words), s.ByArm.Vector)
	}
	if s.RerankScore != nil {
		b = AppendFloat(b, *s.RerankScore)
	}
	if s.GradeScore != nil {
		b = AppendFloat(b, *s.GradeScore)
	}
	if flags&scoreStrength != 0 {
		b = appendFloat32(b, s.Strength)
	}
	return b
}

// ReadScores reads what Append wrote.
func ReadScores(r *BinaryReader, floor float64) (s Scores) {
	flags := r.Byte()
	if flags&scoreScaled != 0 {
		s.Score = float64(r.Int()) * scoreUnit
	} else {
		s.Score = r.Float()
	}
	switch {
	case flags&scoreNone != 0:
	case flags&scoreRelevance != 0:
		s.Relevance = Relevance(s.Score, floor)
	default:
		s.Relevance = r.Float()
	}
	switch {
	case flags&scoreWords != 0:
		s.Arm = ArmWords
	case flags&scoreVector != 0:
		s.Arm = ArmVector
	}
	if s.Arm != ArmNone {
		s.ByArm = ArmScores{Words: r.Float32(), Vector: r.Float32()}
	}
	if flags&scoreReranked != 0 {
		s.RerankScore = new(r.Float())
	}
	if flags&scoreGraded != 0 {
		s.GradeScore = new(r.Float())
	}
	if flags&scoreStrength != 0 {
		s.Strength = r.Float32()
	}
	return s
}

// identical reports whether two numbers have the same bits.
func identical(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }

// Relevance maps a score to [0,1), the scale on which engines with different scores are compared:
// the floor of the search becomes 0.5, three times the floor 0.75, and so on towards 1. Without a
// floor the score is taken as a relevance already, as OpenAI's vector stores return it. The
// mapping is monotonic; NaN and negative scores give 0.
func Relevance(score, floor float64) float64 {
	if !(score > 0) { // NaN too
		return 0
	}
	if hasFloor(floor) {
		score = 1 / (1 + floor/score) // in this form no sum overflows
	}
	return min(score, belowOne)
}

// FromRelevance returns the score whose Relevance is r in a search with that floor. It is always
// finite.
func FromRelevance(r, floor float64) float64 {
	if !(r > 0) {
		return 0
	}
	r = min(r, belowOne)
	if hasFloor(floor) {
		return min(floor*(r/(1-r)), math.MaxFloat64)
	}
	return r
}

// belowOne is the highest relevance.
const belowOne = 1 - 1.0/(1<<53)

// hasFloor reports whether a floor is set.
func hasFloor(floor float64) bool { return floor > 0 && !math.IsInf(floor, 0) }

// furtherWeight is the weight of relevances found by a plan's query; the question's weigh 1. A
// model may misunderstand the question, or be manipulated. It was chosen on SciFact, Cranfield and
// the conversations of package followup, with plans made of the right document's title, of the
// halves of the question, of the previous turn, and of two unrelated questions: these last cost at
// most .02 of nDCG@10, and titles gain .06 or more. At .9 they cost .08.
const furtherWeight = 0.8

// fuseQueries merges what the question and the queries of its plan have found: each chunk once,
// with its highest weighted relevance (CombMAX of Fox and Shaw, 1994). Relevances are comparable
// between queries, since each is measured by its query's own floor; ranks are not, and with a sum
// two off-topic queries could outvote the question. If the policy fuses by ranks, the ranks'
// scores are added up. The result reuses the memory of candidates.
func (s *selection) fuseQueries(candidates []candidate) []candidate {
	type chunk struct {
		knowledge, doc string
		n              int
	}
	at, fused := make(map[chunk]int, len(candidates)), candidates[:0]
	for _, c := range candidates {
		if c.further {
			c.relevance *= furtherWeight
		}
		doc, n := s.answers.identity(&c)
		of := chunk{c.knowledge, doc, n}
		i, again := at[of]
		if again {
			c.ranks += fused[i].ranks
			fused[i].ranks = c.ranks
		}
		switch {
		case !again:
			at[of] = len(fused)
			fused = append(fused, c)
		case c.passes() && !fused[i].passes(), c.passes() == fused[i].passes() && c.relevance > fused[i].relevance:
			fused[i] = c
		}
	}
	clear(candidates[len(fused):])
	return fused
}

// byRank returns the score of a rank in the list that one query has found.
func byRank(rank int, further bool) float64 {
	if further {
		return furtherWeight * ReciprocalRank(rank)
	}
	return ReciprocalRank(rank)
}

// passes reports whether a candidate reaches the minimum score of the query that found it.
func (c *candidate) passes() bool { return c.own >= c.threshold }

// A Fusion is a method that merges lists of candidates.
type Fusion string

// The fusions.
const (
	FusionScores Fusion = ""    // by scores on a common scale, see Distribution
	FusionRanks  Fusion = "rrf" // by ranks, see ReciprocalRank
)

// ReciprocalRank returns the score of a rank, counted from 1, in one list. In reciprocal rank
// fusion (G. V. Cormack, C. L. A. Clarke and S. Büttcher, SIGIR 2009, with their k of 60) a
// candidate's score is the weighted sum over the lists. It is scaled so that the first rank scores
// 1.
func ReciprocalRank(rank int) float64 {
	const k = 60
	return (k + 1) / (k + float64(rank))
}

// A Distribution describes the scores of an arm's candidates. It brings scores of different arms
// to one scale (distribution-based score fusion, M. Mazzeschi, 2023, as in Qdrant).
type Distribution struct{ mean, deviation float64 }

// DistributionOf returns the distribution of scores.
func DistributionOf(scores []float64) (d Distribution) {
	for _, s := range scores {
		d.mean += s / float64(len(scores))
	}
	for _, s := range scores {
		d.deviation += (s - d.mean) * (s - d.mean) / float64(len(scores))
	}
	d.deviation = math.Sqrt(d.deviation)
	return d
}

// Scale maps three standard deviations below the mean to 0, and three above to 1. Higher scores
// always map higher, even beyond 1, so that the best of many candidates can be told apart. If all
// scores are equal, it returns ½.
func (d Distribution) Scale(score float64) float64 {
	const reach = 3
	if d.deviation < 1e-9 { // rounding error
		return .5
	}
	return (score - d.mean + reach*d.deviation) / (2 * reach * d.deviation)
}
