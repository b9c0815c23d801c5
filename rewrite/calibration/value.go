package calibration

import (
	"math"
	"slices"
)

// A Value is a correction: how many tokens are billed for what we count. The zero
// Value is none, as too few answers were seen. Of each pair the first is the median
// of the answers, and the second a bound that few honest ones exceed.
type Value struct {
	// Tokens billed for each one counted, within 0.5 and 4, of requests of at least
	// 200 tokens; RatioUpper is at least 1. With fewer than 8 of those Ratio is 1 and
	// RatioUpper 0, unknown.
	Ratio, RatioUpper float64
	// Tokens billed beyond those counted, of all requests; negative where it is less.
	Offset, OffsetUpper int
}

const (
	// ratioFrom is the least count that makes a ratio: below, what stands before every
	// prompt would look like one.
	ratioFrom          = 200
	minRatio, maxRatio = 0.5, 4.0
	minMargin          = 1.01 // of a RatioUpper over its Ratio
	// minUpper is the least RatioUpper: one caller's texts may be billed at less than
	// their count, by chance or on purpose, and another one's are not.
	minUpper = 1.0
)

// A Value stays in force until another one is further away than this, and than a
// part of its own spread: the samples that come and go move the bounds of wide ones
// by more.
const (
	ratioStep  = 0.02
	offsetStep = 2.0
	spreadPart = 0.25
)

// A sample is one answer.
type sample struct{ counted, billed int }

// absurd tells whether a sample says nothing about how upstreams count.
func (s sample) absurd() bool {
	const maxBilled, most, slack = 100_000_000, 8, 4096
	return s.counted <= 0 || s.billed < 1 || s.billed > maxBilled ||
		most*s.billed < s.counted || s.billed > most*s.counted+slack
}

// valueOf returns what samples, at most ringSize, say. Their order does not matter.
func valueOf(samples []sample) Value {
	if len(samples) < minSamples {
		return Value{}
	}
	var offsets, ratios numbers
	for _, s := range samples {
		offsets.add(float64(s.billed - s.counted))
		if s.counted >= ratioFrom {
			ratios.add(float64(s.billed) / float64(s.counted))
		}
	}
	offset, upper := offsets.robust()
	v := Value{Ratio: 1, Offset: int(math.Round(offset)), OffsetUpper: int(math.Ceil(upper))}
	if ratios.n >= minSamples {
		ratio, upper := ratios.robust()
		v.Ratio = min(max(ratio, minRatio), maxRatio)
		v.RatioUpper = min(max(upper, v.Ratio*minMargin, minUpper), maxRatio)
	}
	return v
}

// Within returns v with an offset that reserves no more than limit tokens: an answer
// may bill anything, and what is reserved for that is taken from everything else.
func (v Value) Within(limit int) Value {
	v.OffsetUpper = min(v.OffsetUpper, limit)
	v.Offset = min(v.Offset, limit)
	return v
}

// valid tells whether valueOf may have returned v.
func (v Value) valid() bool {
	known := v.Ratio >= minRatio && v.RatioUpper >= max(v.Ratio, minUpper) && v.RatioUpper <= maxRatio
	unknown := v.Ratio == 1 && v.RatioUpper == 0
	return (known || unknown) && v.OffsetUpper >= v.Offset
}

// near tells whether v can stay in force where the samples say now. It is false of
// what is no number.
func (v Value) near(now Value) bool {
	if (v == Value{}) || (now == Value{}) || (v.RatioUpper == 0) != (now.RatioUpper == 0) {
		return v == now
	}
	spread := spreadPart * (now.RatioUpper - now.Ratio)
	within := func(a, b float64) bool { return math.Abs(a-b) <= max(ratioStep*b, spread) }
	step := max(offsetStep, spreadPart*float64(now.OffsetUpper-now.Offset))
	beside := func(a, b int) bool { return math.Abs(float64(a)-float64(b)) <= step }
	return within(v.Ratio, now.Ratio) && within(v.RatioUpper, now.RatioUpper) &&
		beside(v.Offset, now.Offset) && beside(v.OffsetUpper, now.OffsetUpper)
}

// numbers are as many as a ring has samples.
type numbers struct {
	all [ringSize]float64
	n   int
}

func (x *numbers) add(f float64) {
	x.all[x.n] = f
	x.n++
}

// median sorts the numbers.
func (x *numbers) median() float64 {
	all := x.all[:x.n]
	slices.Sort(all)
	return (all[(x.n-1)/2] + all[x.n/2]) / 2
}

// robust returns the median and three robust standard deviations above it: 1.4826
// times the median absolute deviation is one, if the honest ones are normal, and
// fewer than half of the numbers, be they anything, move neither beyond the others
// (Hampel 1974; Leys et al. 2013).
func (x *numbers) robust() (median, upper float64) {
	const deviations, normal = 3, 1.4826
	median = x.median()
	for i := range x.n {
		x.all[i] = math.Abs(x.all[i] - median)
	}
	return median, median + deviations*normal*x.median()
}
