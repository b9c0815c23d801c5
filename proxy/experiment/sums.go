package experiment

import "math"

// A pair is the number of observations of a unit and their sum.
type pair struct{ n, y float64 }

// Sums are sums over the units of an arm, for one measure. N and Y are the number of observations
// of a unit and their sum.
type Sums struct {
	Units int     `json:"units"`
	N     float64 `json:"n"`
	Y     float64 `json:"y"`
	YY    float64 `json:"yy"` // sum of the squares of Y
	NY    float64 `json:"ny"`
	NN    float64 `json:"nn"`
}

// change replaces the contribution of a unit.
func (s *Sums) change(before, after pair) {
	if before.n == 0 && after.n > 0 {
		s.Units++
	}
	s.N += after.n - before.n
	s.Y += after.y - before.y
	s.YY += after.y*after.y - before.y*before.y
	s.NY += after.n*after.y - before.n*before.y
	s.NN += after.n*after.n - before.n*before.n
}

// Mean returns the mean observation.
func (s *Sums) Mean() float64 {
	if s.N == 0 {
		return 0
	}
	return s.Y / s.N
}

// variance returns the variance of Mean. Observations of one unit may depend on each other, so that
// it is the variance of a ratio of sums over units, by the delta method (Cochran, Sampling
// Techniques, 1977, §6.4; Deng et al., KDD 2018).
func (s *Sums) variance() float64 {
	if s.Units < 2 || s.N == 0 {
		return math.Inf(1)
	}
	m, u := s.Mean(), float64(s.Units)
	squares := s.YY - 2*m*s.NY + m*m*s.NN
	return max(squares, 0) / (s.N * s.N) * u / (u - 1)
}
