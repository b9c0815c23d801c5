package inspector

import (
	"fmt"
	"math"
	"net/url"

	"github.com/valyala/fasthttp"

	"sidenote/proxy/experiment"
)

// experimentsPath is the path of the list of experiments; each has a page below it.
const experimentsPath = "/experiments"

// experimentAddress returns the path of an experiment's page.
func experimentAddress(name string) string { return experimentsPath + "/" + url.PathEscape(name) }

// An experimentView is the data of experiment.html, and a line of experiments.html.
type experimentView struct {
	experiment.View
	Rows []comparisonRow // the goal first
}

// A comparisonRow is a line of the table of measures.
type comparisonRow struct {
	experiment.Comparison
	Title        string
	MeanA, MeanB string
	Difference   string // with its interval; "" if not measured in both arms
	Interval     string
	Words        string
	Drawn        bool
	X, Width, At float64 // the interval and the difference, in a drawing whose middle is 0
	Differs      bool
}

// titles are the names of measures for people.
var titles = map[string]string{
	"cited": "Answers that cite a source", "citations": "Citations per answer", "unknown_citations": "Answers that cite an unknown source",
	"support": "Support by the cited sources", "silence": "Requests without a source", "context_tokens": "Tokens added", "tokens": "Prompt and completion tokens",
	"cost": "Cost", "retrieval_ms": "Time to find sources", "total_ms": "Whole time", "repeated": "Follow-ups that repeat the question", "feedback": "Feedback of the application",
}

func experimentsPage(i *Inspector, _ *visit) (any, error) {
	views := []experimentView{}
	if i.data.Experiments == nil {
		return views, nil
	}
	for _, v := range i.data.Experiments.Views() {
		views = append(views, viewOf(v))
	}
	return views, nil
}

func experimentPage(i *Inspector, v *visit) (any, error) {
	if i.data.Experiments != nil {
		for _, one := range i.data.Experiments.Views() {
			if one.Name == v.name {
				return viewOf(one), nil
			}
		}
	}
	return nil, &problem{fasthttp.StatusNotFound, fmt.Sprintf("There is no experiment %q.", cut(v.name, "").Text)}
}

// Needed says what a verdict needs.
func (experimentView) Needed() string { return experiment.Needed() }

func viewOf(v experiment.View) experimentView {
	out := experimentView{View: v}
	for _, c := range v.Measures {
		row := comparisonRow{
			Comparison: c, Title: titles[c.Measure], MeanA: "–", MeanB: "–", Words: c.Words(v.Planned, v.Made()),
			Differs: c.Verdict == experiment.Higher || c.Verdict == experiment.Lower,
		}
		if c.A.N > 0 {
			row.MeanA = c.Value(c.A.Mean, false)
		}
		if c.B.N > 0 {
			row.MeanB = c.Value(c.B.Mean, false)
		}
		if c.Difference != nil {
			row.Difference = c.Value(*c.Difference, true)
		}
		if c.Interval != nil {
			row.Interval = c.Value(c.Interval.Low, true) + " to " + c.Value(c.Interval.High, true)
			row.draw()
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// draw places the interval in a drawing whose middle is 0 and which it nearly fills.
func (r *comparisonRow) draw() {
	reach := 1.1 * max(math.Abs(r.Comparison.Interval.Low), math.Abs(r.Comparison.Interval.High))
	if reach == 0 || math.IsInf(reach, 0) {
		return
	}
	x := func(v float64) float64 { return barWidth / 2 * (1 + v/reach) }
	low, high := x(r.Comparison.Interval.Low), x(r.Comparison.Interval.High)
	r.Drawn, r.X, r.Width, r.At = true, low, max(high-low, 2), x(*r.Comparison.Difference)-4
}
