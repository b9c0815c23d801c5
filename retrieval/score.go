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
	return s
}

// identical reports whether two numbers have the same bits.
func identical(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
