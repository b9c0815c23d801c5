package main

import "slices"

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile is the q-quantile of values, between neighbours by their distance; 0 of
// none. values stay as they are.
func quantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	at := q * float64(len(sorted)-1)
	low := int(at)
	high := min(low+1, len(sorted)-1)
	return sorted[low] + (at-float64(low))*(sorted[high]-sorted[low])
}
