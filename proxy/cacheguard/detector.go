package cacheguard

import (
	"math"
	"time"
)

const (
	window   = 200           // requests after which an observation has lost most of its weight
	halfLife = 6 * time.Hour // after which it has lost half of it in any case
	// threshold is where the evidence suffices. If the share is lower by no more than Margin, it is
	// reached within n requests with a probability of at most n/threshold.
	threshold = 1e6
)

// bets are the stakes of a detector. Small ones find small differences, after many requests. The
// largest keeps each factor above 0: a difference is above -1-Margin.
var bets = [...]float64{0.05, 0.1, 0.2, 0.4, 0.8}

// A detector finds out whether the mean of differences between -1 and 1 is above Margin. It may be
// asked after each of them, and the differences need not be alike or independent.
//
// It is the Shiryaev-Roberts e-detector for bounded means of Shin, Ramdas and Rinaldo, "E-detectors:
// a nonparametric framework for sequential change detection" (2022, arXiv 2203.03532): for each bet
// b, a sum over the possible beginnings of a change of the products of 1 + b (difference - Margin).
type detector [len(bets)]float64

// add adds a difference and reports whether the evidence suffices.
func (d *detector) add(difference float64) bool {
	sum := 0.0
	for i, bet := range bets {
		d[i] = min((d[i]+1)*(1+bet*(difference-Margin)), math.MaxFloat32)
		sum += d[i]
	}
	return sum >= threshold*float64(len(bets))
}

// fade reduces the evidence. The bound of threshold still holds.
func (d *detector) fade(by float64) {
	for i := range d {
		d[i] *= by
	}
}

// A mean is a mean in which older values have less weight.
type mean struct {
	at                   time.Time
	weight, sum, squares float64
}

// fadeFrom returns the weight at t of what had the weight 1 at from.
func fadeFrom(from, t time.Time) float64 {
	if from.IsZero() || !t.After(from) {
		return 1
	}
	return math.Exp2(-float64(t.Sub(from)) / float64(halfLife))
}

func (m *mean) add(t time.Time, x float64) {
	const keep = 1 - 1/float64(window)
	by := keep * fadeFrom(m.at, t)
	m.weight, m.sum, m.squares = m.weight*by+1, m.sum*by+x, m.squares*by+x*x
	if t.After(m.at) {
		m.at = t
	}
}

// weightAt returns how many values there are, weighted.
func (m *mean) weightAt(t time.Time) float64 { return m.weight * fadeFrom(m.at, t) }

func (m *mean) value() float64 {
	if m.weight == 0 {
		return 0
	}
	return m.sum / m.weight
}

// lower returns the mean less two standard errors, so that a few lucky values are not expected of
// others.
func (m *mean) lower() float64 {
	value := m.value()
	variance := max(m.squares/m.weight-value*value, 0)
	return max(value-2*math.Sqrt(variance/m.weight), 0)
}

// An arm holds the requests with sources in one placement.
type arm struct {
	detector
	shares, expected mean
	change           change
	controls         int  // see Comparison
	mayMove          bool // of the last request
	told             bool // a finding was returned
	well             struct {
		since    time.Time // when the shares came within half of Margin
		requests int
	}
}

// A change sums up the requests since the shares became too low, so that a finding does not show
// earlier ones. Where that was is estimated as in CUSUM.
type change struct {
	evidence         float64
	shares, expected float64
	requests         int
}

func (c *change) add(share, expected float64) {
	const bet = 0.4
	if c.evidence = max(c.evidence, 1) * (1 + bet*(expected-share-Margin)); c.evidence <= 1 {
		*c = change{}
		return
	}
	c.evidence = min(c.evidence, threshold)
	c.shares, c.expected, c.requests = c.shares+share, c.expected+expected, c.requests+1
}

// add adds a request with its cached share and the expected one. It reports whether the evidence
// suffices.
func (a *arm) add(t time.Time, share, expected float64) bool {
	faded := fadeFrom(a.shares.at, t)
	if a.fade(faded); faded < 0.5 {
		a.change = change{}
	}
	a.shares.add(t, share)
	a.expected.add(t, expected)
	a.change.add(share, expected)
	enough := a.detector.add(expected-share) && a.change.requests >= MinRequests
	if a.told {
		a.recover(t)
		return false
	}
	return enough
}

// recover forgets that a finding was returned once the shares have been within half of Margin for
// long enough.
func (a *arm) recover(t time.Time) {
	if a.expected.value()-a.shares.value() > Margin/2 {
		a.well.since, a.well.requests = time.Time{}, 0
		return
	}
	if a.well.requests++; a.well.since.IsZero() {
		a.well.since = t
	}
	if t.Sub(a.well.since) >= Recovery && a.well.requests >= RecoveryRequests {
		*a = arm{shares: a.shares, expected: a.expected, controls: a.controls, mayMove: a.mayMove}
	}
}

// lately returns the figures of the last requests.
func (a *arm) lately() Comparison {
	return Comparison{Share: a.shares.value(), Expected: a.expected.value(), Requests: int(math.Round(a.shares.weight)), Controls: a.controls}
}

// changed returns the figures since the shares became too low.
func (a *arm) changed() Comparison {
	c := &a.change
	if c.requests == 0 {
		return a.lately()
	}
	n := float64(c.requests)
	return Comparison{Share: c.shares / n, Expected: c.expected / n, Requests: c.requests, Controls: a.controls}
}
