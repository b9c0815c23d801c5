package main

import "slices"

func median(values []float64) float64 { return quantile(values, 0.5) }

// quantile returns the q-quantile of values with linear interpolation, or 0 for none. It does not
// change values.
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
