package model

import (
	"math"
	"slices"
)

// A CalibrationValue relates the tokens that an upstream bills to those counted. The zero value
// is no correction, as there were too few answers. The first of each pair is the median of the
// answers, the second an upper bound that few honest answers exceed.
type CalibrationValue struct {
	// Billed tokens per counted token, from 0.5 to 4, over requests of at least 200 tokens;
	// RatioUpper is at least 1. With fewer than 8 such requests the ratio is unknown: Ratio is 1
	// and RatioUpper 0.
	Ratio, RatioUpper float64
	// Billed minus counted tokens, over all requests; negative if less is billed than counted.
	Offset, OffsetUpper int
}

const (
	// ratioFrom is the least count that is used for a ratio: in shorter requests the fixed text
	// that an upstream puts before every prompt would look like a ratio.
	ratioFrom          = 200
	minRatio, maxRatio = 0.5, 4.0
	minMargin          = 1.01 // RatioUpper is at least Ratio times this
	// minUpper is the least RatioUpper. One caller's texts may be billed at less than their
	// count, by chance or on purpose; the next caller's texts need not be.
	minUpper = 1.0
)

// A value stays current until the one computed from the samples differs by more than a step: the
// constants here, or spreadPart of the distance between its median and its bound if that is more.
// Otherwise wide bounds would move with each sample that comes or goes.
const (
	ratioStep  = 0.02
	offsetStep = 2.0
	spreadPart = 0.25
)

// A sample is one answer: the tokens counted for its request and those billed.
type sample struct{ counted, billed int }

// maxBilled is the largest bill accepted.
const maxBilled = 100_000_000

// absurd reports whether a sample is impossible, so that it says nothing about how the upstream
// counts.
func (s sample) absurd() bool {
	const most, slack = 8, 4096
	return s.counted <= 0 || s.billed < 1 || s.billed > maxBilled ||
		most*s.billed < s.counted || s.billed > most*s.counted+slack
}

// valueOf computes the value from at most ringSize samples, in any order.
func valueOf(samples []sample) CalibrationValue {
	if len(samples) < minSamples {
		return CalibrationValue{}
	}
	offsets, ratios := make([]float64, 0, ringSize), make([]float64, 0, ringSize) // on the stack
	for _, s := range samples {
		offsets = append(offsets, float64(s.billed-s.counted))
		if s.counted >= ratioFrom {
			ratios = append(ratios, float64(s.billed)/float64(s.counted))
		}
	}
	offset, upper := robust(offsets)
	v := CalibrationValue{Ratio: 1, Offset: int(math.Round(offset)), OffsetUpper: int(math.Ceil(upper))}
	if len(ratios) >= minSamples {
		ratio, upper := robust(ratios)
		v.Ratio = min(max(ratio, minRatio), maxRatio)
		v.RatioUpper = min(max(upper, v.Ratio*minMargin, minUpper), maxRatio)
	}
	return v
}

// Within returns v with its offsets capped at limit tokens. An answer may report any bill, and
// tokens reserved for the offset are lost to everything else.
func (v CalibrationValue) Within(limit int) CalibrationValue {
	v.OffsetUpper = min(v.OffsetUpper, limit)
	v.Offset = min(v.Offset, limit)
	return v
}

// valid reports whether v is a value that valueOf can return.
func (v CalibrationValue) valid() bool {
	known := v.Ratio >= minRatio && v.RatioUpper >= max(v.Ratio, minUpper) && v.RatioUpper <= maxRatio
	unknown := v.Ratio == 1 && v.RatioUpper == 0
	return (known || unknown) && v.OffsetUpper >= v.Offset
}

// closeTo reports whether v is within a step of now, the value computed from the samples, so that
// it may stay current. It is false for NaN.
func (v CalibrationValue) closeTo(now CalibrationValue) bool {
	if (v == CalibrationValue{}) || (now == CalibrationValue{}) || (v.RatioUpper == 0) != (now.RatioUpper == 0) {
		return v == now
	}
	spread := spreadPart * (now.RatioUpper - now.Ratio)
	within := func(a, b float64) bool { return math.Abs(a-b) <= max(ratioStep*b, spread) }
	step := max(offsetStep, spreadPart*float64(now.OffsetUpper-now.Offset))
	beside := func(a, b int) bool { return math.Abs(float64(a)-float64(b)) <= step }
	return within(v.Ratio, now.Ratio) && within(v.RatioUpper, now.RatioUpper) &&
		beside(v.Offset, now.Offset) && beside(v.OffsetUpper, now.OffsetUpper)
}

// median sorts the numbers and returns their median.
func median(numbers []float64) float64 {
	slices.Sort(numbers)
	n := len(numbers)
	return (numbers[(n-1)/2] + numbers[n/2]) / 2
}

// robust returns the median and the median plus three robust standard deviations; it modifies
// numbers. 1.4826 times the median absolute deviation estimates the standard deviation if the
// honest numbers are normally distributed. If fewer than half of the numbers are outliers,
// neither result leaves the range of the others (Hampel 1974; Leys et al. 2013).
func robust(numbers []float64) (middle, upper float64) {
	const deviations, normal = 3, 1.4826
	middle = median(numbers)
	for i, n := range numbers {
		numbers[i] = math.Abs(n - middle)
	}
	return middle, middle + deviations*normal*median(numbers)
}
