package experiment

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// A State says whether an experiment is under way.
type State string

// The states.
const (
	Running State = "running"
	Over    State = "over"    // until has passed
	Removed State = "removed" // no longer in the configuration
)

// A Verdict says what is known of a difference.
type Verdict string

// The verdicts.
const (
	Higher     Verdict = "higher"       // B's mean is higher
	Lower      Verdict = "lower"        // B's mean is lower
	Open       Verdict = "open"         // the interval contains 0
	TooLittle  Verdict = "too_little"   // data
	Unmeasured Verdict = "not_measured" // in one arm or both
)

// A View is an experiment with its outcomes so far.
type View struct {
	Object   string       `json:"object"` // "experiment"
	Name     string       `json:"name"`
	State    State        `json:"state"`
	Unit     Unit         `json:"unit"`
	Share    float64      `json:"share"`
	Until    *time.Time   `json:"until,omitempty"`
	Began    time.Time    `json:"began"`
	Changed  *time.Time   `json:"changed,omitempty"` // when policies or settings changed; figures mix both
	Planned  int          `json:"planned_requests"`
	Left     int          `json:"requests_left"` // of Planned
	A        ArmView      `json:"a"`
	B        ArmView      `json:"b"`
	Measures []Comparison `json:"measures"` // the goal first
}

// An ArmView describes an arm.
type ArmView struct {
	Policy   string `json:"policy"`
	Hash     string `json:"policy_hash"`
	Requests int    `json:"requests"`
	Units    int    `json:"units"`
}

// A Comparison is what is known of a measure. Means of shares are from 0 to 1.
type Comparison struct {
	Measure    string    `json:"measure"`
	Unit       string    `json:"unit,omitempty"`
	Goal       bool      `json:"goal,omitempty"`
	A          Mean      `json:"a"`
	B          Mean      `json:"b"`
	Difference *float64  `json:"difference,omitempty"` // of B less A; absent if not measured in both
	Interval   *Interval `json:"interval,omitempty"`   // that contains the true difference, at any time of looking; absent with too little data
	Verdict    Verdict   `json:"verdict"`
	Found      *Found    `json:"found,omitempty"` // when the verdict was first reached
}

// A Mean is the mean outcome of an arm.
type Mean struct {
	N     int     `json:"n"`
	Units int     `json:"units"`
	Mean  float64 `json:"mean"`
}

func meanOf(s *Sums) Mean { return Mean{int(s.N), s.Units, s.Mean()} }

func (k *kept) view(now time.Time) View {
	t, of := k.trial, &k.settings
	t.look()
	v := View{
		Object: "experiment", Name: of.Name, State: Running, Unit: of.Unit, Share: of.Share, Began: k.began, Planned: of.Requests,
		Left: max(of.Requests-t.made(), 0),
		A:    ArmView{of.PolicyA, of.HashA, t.requests[0], t.standing[Silence].Sums[0].Units},
		B:    ArmView{of.PolicyB, of.HashB, t.requests[1], t.standing[Silence].Sums[1].Units},
	}
	switch {
	case !k.active:
		v.State = Removed
	case of.Over(now):
		v.State = Over
	}
	if !of.Until.IsZero() {
		v.Until = &of.Until
	}
	if changed := k.changed; !changed.IsZero() {
		v.Changed = &changed
	}
	v.Measures = append(v.Measures, t.compare(of.Goal))
	for m := range t.standing {
		if Measure(m) != of.Goal {
			v.Measures = append(v.Measures, t.compare(Measure(m)))
		}
	}
	return v
}

func (t *trial) compare(m Measure) Comparison {
	s := &t.standing[m]
	c := Comparison{Measure: m.String(), Unit: m.Unit(), Goal: m == t.goal, A: meanOf(&s.Sums[0]), B: meanOf(&s.Sums[1]), Verdict: Unmeasured}
	if c.A.N == 0 || c.B.N == 0 {
		return c
	}
	d := c.B.Mean - c.A.Mean
	c.Difference, c.Verdict, c.Found = &d, TooLittle, s.Found
	if i, ok := t.interval(m); ok {
		c.Interval, c.Verdict = &i, Open
	}
	switch {
	case s.Found == nil:
	case s.Found.Low > 0:
		c.Verdict = Higher
	default:
		c.Verdict = Lower
	}
	return c
}

// Value formats a mean or, with sign, a difference of the measure.
func (c *Comparison) Value(v float64, sign bool) string {
	digits, suffix := 1, ""
	switch c.Unit {
	case "%":
		v *= 100
		if suffix = " %"; sign {
			suffix = " points"
		}
	case "USD":
		digits, suffix = 5, " USD"
	case "ms", "tokens":
		digits, suffix = 0, " "+c.Unit
		if math.Abs(v) < 10 {
			digits = 1
		}
	default:
		digits = 2
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if strings.Trim(text, "-0.") == "" {
		text = strings.TrimPrefix(text, "-")
	}
	if sign && v > 0 {
		text = "+" + text
	}
	return text + suffix
}

// Needed says what a verdict needs.
func Needed() string {
	return fmt.Sprintf("a verdict needs %d units in both arms and, of shares, %d cases each of yes and no", MinUnits, minEvents)
}

// Words says the verdict for people. planned and made are numbers of requests.
func (c *Comparison) Words(planned, made int) string {
	switch c.Verdict {
	case Higher, Lower:
		return fmt.Sprintf("%s with B (found after %d requests: %s to %s)", c.Verdict, c.Found.Requests, c.Value(c.Found.Low, true), c.Value(c.Found.High, true))
	case Open:
		if made >= planned {
			return "no difference found with the planned requests"
		}
		return "no difference found yet"
	case TooLittle:
		return "too little data"
	}
	return "not measured in both arms"
}

// Made returns the number of requests in both arms.
func (v *View) Made() int { return v.A.Requests + v.B.Requests }
