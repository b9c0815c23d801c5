package retrieval

import (
	"math"
)

// orDefaults replaces what cannot be meant: counts and a deadline that are not
// positive, and a threshold that is NaN or negative, become the default. Fewer
// candidates than sources are raised to as many. So a half-filled policy
// searches as usual; to search for nothing, do not ask.
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

// threshold is the least score that a chunk of a base with this floor needs;
// -Inf where there is none.
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
