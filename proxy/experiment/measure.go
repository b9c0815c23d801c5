package experiment

import (
	"fmt"

	"sidenote/cache/budget"
	"sidenote/proxy/report"
	"sidenote/rewrite"
)

// A Measure is an outcome that is compared.
type Measure int

// The measures.
const (
	Cited         Measure = iota // share of answers that cite a source
	Citations                    // citations per answer
	Unknown                      // share of answers that cite a source that does not exist
	Support                      // mean rewrite.SourceEntry.Support of the cited sources of an answer
	Silence                      // share of requests without a source
	ContextTokens                // tokens added
	Tokens                       // prompt and completion tokens, as billed
	Cost                         // US dollars, by the configured prices
	Retrieval                    // milliseconds of the search for sources
	Total                        // milliseconds from the request to the end of the answer
	Repeated                     // share of follow-up questions that repeat the question before
	Feedback                     // score that the application gave, -1 to 1

	measures int = iota
)

// measureNames are the names in configuration and JSON, whether a measure is a share of 0s and 1s,
// and its unit.
var measureNames = [measures]struct {
	name  string
	share bool
	unit  string
}{
	{"cited", true, "%"}, {"citations", false, ""}, {"unknown_citations", true, "%"}, {"support", false, ""}, {"silence", true, "%"},
	{"context_tokens", false, "tokens"}, {"tokens", false, "tokens"}, {"cost", false, "USD"}, {"retrieval_ms", false, "ms"}, {"total_ms", false, "ms"},
	{"repeated", true, "%"}, {"feedback", false, ""},
}

// Measures lists the names of all measures.
func Measures() []string {
	names := make([]string, 0, measures)
	for _, m := range measureNames {
		names = append(names, m.name)
	}
	return names
}

// String returns the name.
func (m Measure) String() string { return measureNames[m].name }

// Share reports whether the measure is a share.
func (m Measure) Share() bool { return measureNames[m].share }

// Unit returns the unit: "%", "tokens", "USD", "ms" or "".
func (m Measure) Unit() string { return measureNames[m].unit }

// ParseMeasure returns the measure of a name.
func ParseMeasure(name string) (Measure, error) {
	for m, of := range measureNames {
		if of.name == name {
			return Measure(m), nil
		}
	}
	return 0, fmt.Errorf("%q is not a measure", name)
}

// outcomes are the values of one request.
type outcomes struct {
	value [measures]float64
	set   [measures]bool
}

func (o *outcomes) add(m Measure, value float64) { o.value[m], o.set[m] = value, true }

func (o *outcomes) addShare(m Measure, is bool) {
	value := 0.0
	if is {
		value = 1
	}
	o.add(m, value)
}

// outcomesOf returns the outcomes of a finished request. In mode shadow no answer has seen
// sources, so that nothing is known of citations.
func outcomesOf(r *report.Report) (o outcomes) {
	sources := r.Sources()
	if r.Tools != nil {
		sources += len(r.Tools.Sources)
	}
	o.addShare(Silence, sources == 0)
	o.add(ContextTokens, float64(r.Rewrite.Ledger.Used))
	if took := r.Rewrite.RetrieveTook; took > 0 {
		o.add(Retrieval, report.Milliseconds(took))
	}
	o.add(Total, report.Milliseconds(r.Total))
	if u := r.Usage; u.Known {
		o.add(Tokens, float64(u.Input+u.Output))
	}
	if money := r.Budget.Charged.Money; money > 0 {
		o.add(Cost, float64(money)/budget.USD)
	}
	if r.Experiment.FollowUp {
		o.addShare(Repeated, r.Experiment.Repeats)
	}
	if r.Outcome != rewrite.Shadowed {
		o.addCitations(r, sources)
	}
	return o
}

// addCitations adds what is known of citations. An answer without sources cites none; one with
// sources that was not checked is not counted.
func (o *outcomes) addCitations(r *report.Report, sources int) {
	c := r.Citations
	switch {
	case c == nil && sources == 0:
		o.addShare(Cited, false)
		o.add(Citations, 0)
		o.addShare(Unknown, false)
		return
	case c == nil || c.Unread != "":
		return
	}
	o.addShare(Cited, c.Times() > 0)
	o.add(Citations, float64(c.Times()))
	o.addShare(Unknown, c.Unknown > 0)
	total, n := 0.0, 0
	for i := range c.Cited {
		if s := c.Cited[i].Support; s != nil {
			total, n = total+*s, n+1
		}
	}
	if n > 0 {
		o.add(Support, total/float64(n))
	}
}
