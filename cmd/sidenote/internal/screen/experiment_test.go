package screen

import (
	"strings"
	"testing"
	"time"

	"sidenote/proxy/experiment"
)

// tried is an experiment in which B was found to cite more, and another measure is open.
func tried() experiment.View {
	d, open := .051, 12.
	return experiment.View{
		Object: "experiment", Name: "longer-sources", State: experiment.Running, Unit: experiment.Conversation, Share: .2, Planned: 4000, Left: 1850,
		A: experiment.ArmView{Policy: "base", Hash: "c3ca2702", Requests: 1720, Units: 601}, B: experiment.ArmView{Policy: "longer", Hash: "0a0b0c0d", Requests: 430, Units: 150},
		Measures: []experiment.Comparison{
			{Measure: "cited", Unit: "%", Goal: true, A: experiment.Mean{N: 1720, Units: 601, Mean: .6}, B: experiment.Mean{N: 430, Units: 150, Mean: .651}, Difference: &d,
				Interval: &experiment.Interval{Low: .004, High: .098}, Verdict: experiment.Higher, Found: &experiment.Found{Requests: 2100, Interval: experiment.Interval{Low: .003, High: .099}}},
			{Measure: "context_tokens", Unit: "tokens", A: experiment.Mean{N: 1720, Units: 601, Mean: 800}, B: experiment.Mean{N: 430, Units: 150, Mean: 812}, Difference: &open,
				Interval: &experiment.Interval{Low: -100, High: 124}, Verdict: experiment.Open},
			{Measure: "feedback", A: experiment.Mean{N: 3, Units: 3, Mean: .5}, Verdict: experiment.Unmeasured},
		},
	}
}

// An experiment shows both arms, and for each measure the difference, its interval and a verdict.
func TestExperimentShowsVerdicts(t *testing.T) {
	v := tried()
	changed := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	v.Changed = &changed
	var w strings.Builder
	Experiment(&w, &v)
	const want = `experiment longer-sources  running
a          policy base (c3ca2702), 1,720 requests, 601 units
b          policy longer (0a0b0c0d), 430 requests, 150 units
planned    4,000 requests, 1,850 to go; 20% of the units (conversation) get policy b
changed    a policy or a setting of the experiment, at 2026-11-30T12:00:00Z: the figures mix both; give it a new name

MEASURE                       A             B         B LESS A  INTERVAL                          VERDICT
cited*                   60.0 %        65.1 %      +5.1 points  +0.4 points to +9.8 points        higher with B (found after 2100 requests: +0.3 points to +9.9 points)
context_tokens       800 tokens    812 tokens       +12 tokens  -100 tokens to +124 tokens        no difference found yet
feedback                   0.50             -                -  -                                 not measured in both arms
* goal; intervals hold at whatever time you look, and all measures together err in at most 5 % of experiments; a verdict needs 30 units in both arms and, of shares, 5 cases each of yes and no
`
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

// The list shows what is known of each goal.
func TestExperimentsListGoals(t *testing.T) {
	var w strings.Builder
	Experiments(&w, []experiment.View{tried()})
	const want = `EXPERIMENT      STATE            REQUESTS  GOAL
longer-sources  running    2,150 of 4,000  cited: higher with B (found after 2100 requests: +0.3 points to +9.9 points)
`
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
	w.Reset()
	if Experiments(&w, nil); w.String() != "no policy has an experiment\n" {
		t.Errorf("without any: %s", w.String())
	}
}
