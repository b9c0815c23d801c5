package retrieval

import "math"

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
