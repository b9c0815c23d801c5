package experiment

import "math"

// The test is the intersection of two confidence sequences for the difference of two means. Let d
// be the difference, v its variance, I = 1/v the information and S = d·I. If the arms do not
// differ, S is asymptotically a Brownian motion in I (Waudby-Smith et al., 2021), and with t, the
// observations of the measure as a share of the planned requests, S/√I(1) is one in t.
//
//   - Up to t = 1 the boundary is constant: |S|/√I(1) ≥ b. It has the shape of O'Brien and Fleming
//     (1979). By the reflection principle it is ever crossed with probability ≤ 4·(1-Φ(b)).
//   - For ever, the boundary is that of Robbins' normal mixture (1970):
//     |S|/√I(1) ≥ √((t+r)·ln((t+r)/(r·α²))), with r such that it is near its narrowest at t = 1.5
//     (Howard et al., Annals of Statistics 2021, §3.5).
//
// By the union bound, the errors of all measures add up to 5 %.
const (
	goalPlanned  = 0.042 // error of the goal by the first boundary
	goalForEver  = 0.003 // by the second
	othersBudget = 0.005 // of all other measures together, divided likewise

	// MinUnits is the number of units that both arms need for a verdict, and minEvents how many
	// observations of 1 and of 0 they need where the measure is a share.
	MinUnits  = 30
	minEvents = 5
)

// boundaries are the parameters of a test.
type boundaries struct {
	constant float64 // b
	alpha    float64 // α of the mixture
	mixing   float64 // r
}

// boundariesOf returns the test for one of the measures.
func boundariesOf(m, goal Measure) boundaries {
	planned, forEver := goalPlanned, goalForEver
	if m != goal {
		share := othersBudget / (goalPlanned + goalForEver) / float64(measures-1)
		planned, forEver = planned*share, forEver*share
	}
	const narrowest = 1.5
	log := -2 * math.Log(forEver)
	return boundaries{constant: quantile(1 - planned/4), alpha: forEver, mixing: narrowest / (log + math.Log(log+1))}
}

// quantile is the inverse of the standard normal distribution function.
func quantile(p float64) float64 { return math.Sqrt2 * math.Erfinv(2*p-1) }

// byMixture returns how many standard errors of d the second boundary is wide at t.
func (b boundaries) byMixture(t float64) float64 {
	return math.Sqrt((t + b.mixing) * math.Log((t+b.mixing)/(b.mixing*b.alpha*b.alpha)) / t)
}

// width returns how many standard errors of d both boundaries leave at t.
func (b boundaries) width(t float64) float64 {
	if t > 1 {
		return b.byMixture(t)
	}
	return min(b.byMixture(t), b.constant/math.Sqrt(t))
}

// An Interval is a confidence interval of the mean of B less that of A.
type Interval struct {
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// excludesZero reports whether the arms differ.
func (i Interval) excludesZero() bool { return i.Low > 0 || i.High < 0 }

// intersect returns the part of i in j; i if there is none.
func (i Interval) intersect(j Interval) Interval {
	if both := (Interval{max(i.Low, j.Low), min(i.High, j.High)}); both.Low <= both.High {
		return both
	}
	return i
}

// interval returns the interval at t. ok is false if there is too little data for one.
func (b boundaries) interval(m Measure, x, y *Sums, t float64) (i Interval, ok bool) {
	if !enough(m, x) || !enough(m, y) || t <= 0 {
		return i, false
	}
	v := x.variance() + y.variance()
	if v <= 0 {
		return i, false // all observations are equal
	}
	d, half := y.Mean()-x.Mean(), b.width(t)*math.Sqrt(v)
	return Interval{d - half, d + half}, true
}

func enough(m Measure, s *Sums) bool {
	return s.Units >= MinUnits && (!m.Share() || s.Y >= minEvents && s.N-s.Y >= minEvents)
}
