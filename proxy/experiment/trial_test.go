package experiment

import (
	"math"
	"math/rand/v2"
)

// A traffic makes requests of conversations whose outcomes depend on each other.
type traffic struct {
	rand    *rand.Rand
	share   float64
	cited   [2]float64 // share of answers that cite, of A and B
	cluster float64    // intra-class correlation of citing within a conversation
	open    []conversation
	next    Key
}

type conversation struct {
	key   unitKey
	cites float64 // probability that an answer cites
	level float64 // of all measures that are not shares
	left  int
}

func newTraffic(seed uint64, share, cited, lift, cluster float64) *traffic {
	return &traffic{rand: rand.New(rand.NewPCG(seed, 47)), share: share, cited: [2]float64{cited, cited + lift}, cluster: cluster}
}

// gamma returns a gamma variate of shape a (Marsaglia and Tsang, 2000).
func (f *traffic) gamma(a float64) float64 {
	if a < 1 {
		return f.gamma(a+1) * math.Pow(f.rand.Float64(), 1/a)
	}
	d := a - 1./3
	for {
		x := f.rand.NormFloat64()
		v := math.Pow(1+x/math.Sqrt(9*d), 3)
		if v > 0 && math.Log(f.rand.Float64()) < x*x/2+d-d*v+d*math.Log(v) {
			return d * v
		}
	}
}

// begin returns a new conversation of 3 turns on average, whose probability to cite has a beta
// distribution.
func (f *traffic) begin() conversation {
	f.next++
	b := f.rand.Float64() < f.share
	p, strength := f.cited[arm(b)], 1/f.cluster-1
	x, y := f.gamma(p*strength), f.gamma((1-p)*strength)
	c := conversation{key: unitKey{f.next, b}, cites: x / (x + y), level: math.Exp(f.rand.NormFloat64() / 2), left: 1}
	for f.rand.Float64() < 2./3 && c.left < 20 {
		c.left++
	}
	return c
}

// request adds the next request to a trial; it is of one of 20 open conversations.
func (f *traffic) request(t *trial) {
	for len(f.open) < 20 {
		f.open = append(f.open, f.begin())
	}
	i := f.rand.IntN(len(f.open))
	c := &f.open[i]
	o := f.outcomes(c)
	t.add(c.key, &o)
	if c.left--; c.left == 0 {
		f.open[i] = f.begin()
	}
}

func (f *traffic) outcomes(c *conversation) (o outcomes) {
	cites := f.rand.Float64() < c.cites
	o.addShare(Cited, cites)
	if o.add(Citations, 0); cites {
		o.add(Citations, float64(1+f.rand.IntN(3)))
		o.add(Support, min(1, .5*c.level*f.rand.Float64()))
	}
	o.addShare(Unknown, f.rand.Float64() < .05*c.level)
	o.addShare(Silence, f.rand.Float64() < .2*min(c.level, 4))
	for _, m := range []Measure{ContextTokens, Tokens, Cost, Retrieval, Total} {
		o.add(m, 100*c.level*math.Exp(f.rand.NormFloat64()))
	}
	o.addShare(Repeated, f.rand.Float64() < .1)
	if f.rand.Float64() < .2 {
		o.add(Feedback, math.Copysign(1, c.cites-f.rand.Float64()))
	}
	return o
}

// alarms returns how many of the runs find a difference in goal, and in any measure, if somebody
// looks after each 100 of the requests.
func alarms(runs, requests, planned int, make func(run int) *traffic) (goal, anything int) {
	for run := range runs {
		f, s := make(run), Settings{Goal: Cited, Requests: planned}
		t := newTrial(&s)
		for range requests {
			if f.request(t); t.made()%100 == 0 {
				t.look()
			}
		}
		found := false
		for m := range t.standing {
			found = found || t.standing[m].Found != nil
		}
		if found {
			anything++
		}
		if t.standing[Cited].Found != nil {
			goal++
		}
	}
	return goal, anything
}
