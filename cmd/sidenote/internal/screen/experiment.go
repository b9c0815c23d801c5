package screen

import (
	"fmt"
	"io"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/proxy/experiment"
)

// Experiments shows each experiment, with what is known of its goal.
func Experiments(w io.Writer, all []experiment.View) {
	if len(all) == 0 {
		fmt.Fprintln(w, "no policy has an experiment")
		return
	}
	width := len("EXPERIMENT")
	for i := range all {
		width = max(width, len(all[i].Name))
	}
	fmt.Fprintf(w, "%-*s  %-8s  %15s  %s\n", width, "EXPERIMENT", "STATE", "REQUESTS", "GOAL")
	for i := range all {
		v := &all[i]
		goal := &v.Measures[0]
		fmt.Fprintf(w, "%-*s  %-8s  %15s  %s: %s\n", width, v.Name, v.State, terminal.Thousands(v.Made())+" of "+terminal.Thousands(v.Planned), goal.Measure, goal.Words(v.Planned, v.Made()))
	}
}

// Experiment shows the outcomes of an experiment.
func Experiment(w io.Writer, v *experiment.View) {
	fmt.Fprintf(w, "experiment %s  %s", v.Name, v.State)
	if v.Until != nil {
		fmt.Fprintf(w, ", until %s", v.Until.Format(time.RFC3339))
	}
	fmt.Fprintln(w)
	for _, arm := range []struct {
		name string
		of   *experiment.ArmView
	}{{"a", &v.A}, {"b", &v.B}} {
		fmt.Fprintf(w, "%s          policy %s (%s), %s, %s\n", arm.name, arm.of.Policy, arm.of.Hash, terminal.Plural(arm.of.Requests, "request"), terminal.Plural(arm.of.Units, "unit"))
	}
	fmt.Fprintf(w, "planned    %s, %s to go; %g%% of the units (%s) get policy b\n", terminal.Plural(v.Planned, "request"), terminal.Thousands(v.Left), 100*v.Share, v.Unit)
	if v.Changed != nil {
		fmt.Fprintf(w, "changed    a policy or a setting of the experiment, at %s: the figures mix both; give it a new name\n", v.Changed.Format(time.RFC3339))
	}
	fmt.Fprintf(w, "\n%-17s  %12s  %12s  %15s  %-32s  %s\n", "MEASURE", "A", "B", "B LESS A", "INTERVAL", "VERDICT")
	for i := range v.Measures {
		printComparison(w, v, &v.Measures[i])
	}
	fmt.Fprintln(w, "* goal; intervals hold at whatever time you look, and all measures together err in at most 5 % of experiments; "+experiment.Needed())
}

func printComparison(w io.Writer, v *experiment.View, c *experiment.Comparison) {
	mean := func(m experiment.Mean) string {
		if m.N == 0 {
			return "-"
		}
		return c.Value(m.Mean, false)
	}
	difference, interval, name := "-", "-", c.Measure
	if c.Difference != nil {
		difference = c.Value(*c.Difference, true)
	}
	if c.Interval != nil {
		interval = c.Value(c.Interval.Low, true) + " to " + c.Value(c.Interval.High, true)
	}
	if c.Goal {
		name += "*"
	}
	fmt.Fprintf(w, "%-17s  %12s  %12s  %15s  %-32s  %s\n", name, mean(c.A), mean(c.B), difference, interval, c.Words(v.Planned, v.Made()))
}
