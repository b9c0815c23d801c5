package retrieval

import (
	"math"
)

// orDefaults replaces invalid values by the defaults: counts and a deadline that are not positive,
// and a threshold that is NaN or negative. NumCandidates is at least TopK. So an incomplete policy
// searches with defaults; to search nothing, do not call a Retriever.
func (s Settings) orDefaults() Settings {
	d := DefaultSettings()
	if s.TopK <= 0 {
		s.TopK = d.TopK
	}
	if s.NumCandidates <= 0 {
		s.NumCandidates = d.NumCandidates
	}
	s.NumCandidates = max(s.NumCandidates, s.TopK)
	if s.MaxPerDocument <= 0 {
		s.MaxPerDocument = d.MaxPerDocument
	}
	if math.IsNaN(s.ScoreThreshold) || s.ScoreThreshold < 0 {
		s.ScoreThreshold = AutoThreshold
	}
	if !(s.DenseWeight > 0 && s.DenseWeight <= 1) {
		s.DenseWeight = 0
	}
	if s.Fusion != FusionRanks {
		s.Fusion = FusionScores
	}
	if s.Deadline <= 0 {
		s.Deadline = d.Deadline
	}
	return s
}

// threshold returns the minimum score of chunks of a base with the given floor; -Inf if there is
// none.
func (s Settings) threshold(knowledge string, floor float64) float64 {
	if s.ScoreThreshold >= 0 {
		return s.ScoreThreshold
	}
	for _, t := range s.Thresholds {
		if t.Knowledge == knowledge {
			return FromRelevance(t.Relevance, floor)
		}
	}
	switch {
	case floor == 0 || math.IsNaN(floor):
		return math.Inf(-1)
	}
	return floor
}
