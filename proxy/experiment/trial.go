package experiment

// maxUnits is how many units a trial can tell apart. If one returns after so many others, it counts
// as new.
const maxUnits = 50_000

// checkEvery is the number of requests between two looks at the intervals.
const checkEvery = 50

// A Found is a difference that was found.
type Found struct {
	Requests int `json:"requests"` // made until then
	Interval
}

// A standing is what is known of a measure.
type standing struct {
	Sums  [2]Sums   `json:"sums"`            // of A and B
	Plan  *Interval `json:"plan,omitempty"`  // at the last look before it had so many observations as requests are planned
	Found *Found    `json:"found,omitempty"` // first
}

// A unitKey is a unit in an arm: those of one experiment differ only if its share was changed.
type unitKey struct {
	unit Key
	b    bool
}

// A unit is what is known of a unit.
type unit struct {
	key unitKey
	n   [measures]float32
	y   [measures]float64
}

// A trial sums up the outcomes of an experiment. It is not safe for concurrent use.
type trial struct {
	goal     Measure
	planned  int
	requests [2]int
	standing [measures]standing
	tests    [measures]boundaries

	at    map[unitKey]int // index in units
	units []unit
	next  int // the unit that is replaced next, when there are maxUnits
}

func newTrial(s *Settings) *trial {
	t := &trial{at: map[unitKey]int{}}
	t.retune(s)
	return t
}

// unit returns the unit of a key. The pointer is valid until the next call.
func (t *trial) unit(key unitKey) *unit {
	i, ok := t.at[key]
	switch {
	case ok:
	case len(t.units) < maxUnits:
		i = len(t.units)
		t.units = append(t.units, unit{key: key})
		t.at[key] = i
	default: // the oldest makes room
		i, t.next = t.next, (t.next+1)%maxUnits
		delete(t.at, t.units[i].key)
		t.units[i] = unit{key: key}
		t.at[key] = i
	}
	return &t.units[i]
}

// arm returns the index of an arm.
func arm(b bool) int {
	if b {
		return 1
	}
	return 0
}

// add adds the outcomes of a request.
func (t *trial) add(key unitKey, o *outcomes) {
	u := t.unit(key)
	for m := range o.value {
		if o.set[m] {
			t.change(u, Measure(m), 1, o.value[m])
		}
	}
	t.requests[arm(key.b)]++
	if t.made()%checkEvery == 0 {
		t.look()
	}
}

// change adds n observations with sum y to a unit.
func (t *trial) change(u *unit, m Measure, n, y float64) {
	before := pair{float64(u.n[m]), u.y[m]}
	u.n[m] += float32(n)
	u.y[m] += y
	t.standing[m].Sums[arm(u.key.b)].change(before, pair{float64(u.n[m]), u.y[m]})
}

// made returns the number of requests.
func (t *trial) made() int { return t.requests[0] + t.requests[1] }

// progress returns the observations of a measure as a share of the planned requests. It grows as the
// information does, also with scores that come after the requests.
func (t *trial) progress(m Measure) float64 {
	s := &t.standing[m].Sums
	return (s[0].N + s[1].N) / float64(t.planned)
}

// interval returns the interval of a measure.
func (t *trial) interval(m Measure) (i Interval, ok bool) {
	s := &t.standing[m]
	i, ok = t.tests[m].interval(m, &s.Sums[0], &s.Sums[1], t.progress(m))
	if ok && s.Plan != nil && t.progress(m) > 1 {
		i = i.intersect(*s.Plan)
	}
	return i, ok
}

// look looks at all intervals, and keeps what was found.
func (t *trial) look() {
	for m := range t.standing {
		s := &t.standing[m]
		i, ok := t.interval(Measure(m))
		if !ok {
			continue
		}
		if t.progress(Measure(m)) <= 1 {
			s.Plan = &i
		}
		if s.Found == nil && i.excludesZero() {
			s.Found = &Found{t.made(), i}
		}
	}
}

// retune changes the goal and the number of planned requests.
func (t *trial) retune(s *Settings) {
	t.goal, t.planned = s.Goal, max(s.Requests, 1)
	for m := range t.tests {
		t.tests[m] = boundariesOf(Measure(m), s.Goal)
	}
}
