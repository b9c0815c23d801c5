package experiment

import (
	"math"
	"math/rand/v2"
	"testing"
)

// If the policies do not differ, 5 % of the experiments raise an alarm at most, over all measures
// and looks. For 1,000 runs the limit is 5 % itself; for the small sets it is two standard errors
// above it.
func TestLookingOftenRaisesFewFalseAlarms(t *testing.T) {
	f := func(runs, requests int, share float64, most int) {
		if testing.Short() { // with the race detector; the other runs are made without it
			runs, most = runs/20, most/20+3
		}
		goal, anything := alarms(runs, requests, DefaultRequests, func(run int) *traffic { return newTraffic(uint64(run), share, .6, 0, .1) })
		t.Logf("%d runs of %d requests, share %v: %d alarms, %d of them on the goal", runs, requests, share, anything, goal)
		if anything > most {
			t.Errorf("%d alarms in %d runs of %d requests, want at most %d", anything, runs, requests, most)
		}
	}
	f(1000, 4000, .5, 50)
	f(100, 20_000, .5, 9)
	f(200, 4000, .2, 16)
}

// Scores that come after the requests raise as few false alarms.
func TestLateScoresRaiseFewFalseAlarms(t *testing.T) {
	runs, planned := 1000, 1000
	if testing.Short() {
		runs = 100
	}
	alarms := 0
	for run := range runs {
		random, tr := rand.New(rand.NewPCG(uint64(run), 47)), newTrial(&Settings{Goal: Feedback, Requests: planned})
		key := func(n int) unitKey { return unitKey{Key(n / 2), n/2%2 == 1} }
		for n := range planned {
			tr.add(key(n), &outcomes{})
		}
		for n := range planned {
			tr.change(tr.unit(key(n)), Feedback, 1, float64(2*random.IntN(2)-1))
			tr.look()
		}
		if tr.standing[Feedback].Found != nil {
			alarms++
		}
	}
	t.Logf("%d alarms in %d runs", alarms, runs)
	if most := .05*float64(runs) + 2*math.Sqrt(.05*float64(runs)); float64(alarms) > most {
		t.Errorf("%d alarms in %d runs, want at most %.0f", alarms, runs, most)
	}
}

// A difference of 5 points is found with the planned requests in at least 80 % of the experiments,
// unless answers of a conversation depend much on each other or one arm is small.
func TestADifferenceOfFivePointsIsFound(t *testing.T) {
	runs := 300
	if testing.Short() {
		runs = 20
	}
	f := func(share, cited, cluster, least float64) {
		goal, _ := alarms(runs, 4000, 4000, func(run int) *traffic { return newTraffic(uint64(run), share, cited, .05, cluster) })
		t.Logf("from %.0f %% to %.0f %%, share %v, intra-class correlation %v: found in %d of %d", 100*cited, 100*cited+5, share, cluster, goal, runs)
		want := least * float64(runs)
		if testing.Short() {
			want -= 2 * math.Sqrt(want*(1-least)) // two standard errors
		}
		if float64(goal) < want {
			t.Errorf("from %v, share %v: found in %d of %d, want %v", cited, share, goal, runs, want)
		}
	}
	f(.5, .60, .02, .8)
	f(.5, .60, .1, .65)
	f(.5, .80, .05, .9)
	f(.2, .60, .02, .55)
}

// The variance of a mean of dependent observations is that of the means of many samples.
func TestVarianceAllowsForUnits(t *testing.T) {
	var means, variances []float64
	for seed := range uint64(300) {
		f, tr := newTraffic(seed, .5, .6, 0, .5), newTrial(&Settings{Requests: 1000})
		for range 1000 {
			f.request(tr)
		}
		s := &tr.standing[Cited].Sums[0]
		means, variances = append(means, s.Mean()), append(variances, s.variance())
	}
	mean, square := 0.0, 0.0
	for _, m := range means {
		mean += m / float64(len(means))
	}
	for _, m := range means {
		square += (m - mean) * (m - mean) / float64(len(means)-1)
	}
	estimated := 0.0
	for _, v := range variances {
		estimated += v / float64(len(variances))
	}
	if ratio := estimated / square; ratio < .8 || ratio > 1.25 { // the error of the ratio is 8 %
		t.Errorf("estimated variance %v, observed %v", estimated, square)
	}
	if naive := mean * (1 - mean) / 500; estimated < 1.3*naive {
		t.Errorf("estimated variance %v is that of independent observations, %v", estimated, naive)
	}
}

func TestBoundaries(t *testing.T) {
	goal := boundariesOf(Cited, Cited)
	if err := 4 * (1 - .5*math.Erfc(-goal.constant/math.Sqrt2)); math.Abs(err-goalPlanned) > 1e-9 {
		t.Errorf("the constant boundary %v has error %v, want %v", goal.constant, err, goalPlanned)
	}
	all := 0.0
	for m := range measures {
		b := boundariesOf(Measure(m), Cited)
		all += 4*(1-.5*math.Erfc(-b.constant/math.Sqrt2)) + b.alpha
	}
	if math.Abs(all-.05) > 1e-9 {
		t.Errorf("the errors of all measures are %v, want .05", all)
	}
}
