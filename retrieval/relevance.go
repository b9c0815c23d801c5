package retrieval

import "math"

// Relevance brings a score to [0,1), for interfaces whose scores go so: the
// floor of the search becomes 0.5, three times the floor 0.75, and so on towards
// 1. Higher scores never come out lower. Without a floor, 1 stands in for it;
// NaN and negative scores give 0.
func Relevance(score, floor float64) float64 {
	if !(score > 0) { // NaN too
		return 0
	}
	r := 1 / (1 + unit(floor)/score) // so that no sum overflows
	if !(r < belowOne) {
		return belowOne
	}
	return r
}

// FromRelevance returns the score of a search with that floor whose Relevance is
// r. It is always finite.
func FromRelevance(r, floor float64) float64 {
	if !(r > 0) {
		return 0
	}
	r = min(r, belowOne)
	return min(unit(floor)*(r/(1-r)), math.MaxFloat64)
}

// belowOne is the greatest relevance.
const belowOne = 1 - 1.0/(1<<53)

// unit is the score that is half relevant.
func unit(floor float64) float64 {
	if floor > 0 && !math.IsInf(floor, 0) {
		return floor
	}
	return 1
}
