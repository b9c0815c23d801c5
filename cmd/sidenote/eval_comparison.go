package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sidenote/cmd/internal/terminal"
	"sidenote/retrieval/eval"
)

// An evalComparison holds two evaluations of the same questions under different configurations.
type evalComparison struct {
	Name  string
	Sides [2]evalSide
}

// A evalSide is one of the two.
type evalSide struct {
	Config string // file of the configuration
	*evaluation
}

// A comparisonAnswer is what --json prints of a comparison.
type comparisonAnswer struct {
	Object   string         `json:"object"` // "eval.compare"
	Data     string         `json:"data"`
	Queries  int            `json:"queries"` // answered on both sides
	A        sideAnswer     `json:"a"`
	B        sideAnswer     `json:"b"`
	Measures []difference   `json:"measures"`
	Better   int            `json:"queries_better"` // with a larger nDCG in b
	Worse    int            `json:"queries_worse"`
	Changed  []changedQuery `json:"changed"` // largest change first
	More     int            `json:"changed_not_shown,omitempty"`
}

type sideAnswer struct {
	Config string `json:"config"`
	evaluationAnswer
}

// A difference compares one measure on both sides.
type difference struct {
	Name string  `json:"measure"`
	A    float64 `json:"a"`
	B    float64 `json:"b"`
	Gain float64 `json:"difference"` // b - a
	P    float64 `json:"p"`          // of a paired randomization test, two-sided
}

// A changedQuery is a query with different results on the two sides.
type changedQuery struct {
	ID   string         `json:"query_id"`
	Text string         `json:"text"`
	A    changedOutcome `json:"a"`
	B    changedOutcome `json:"b"`
}

type changedOutcome struct {
	NDCG  float64 `json:"ndcg_at_10"`
	Rank  int     `json:"first_relevant,omitempty"` // from 1; absent beyond the first hundred
	Right bool    `json:"request_gets_relevant"`
}

// Asked returns an error if there is nothing to compare.
func (c *evalComparison) Asked() error {
	if len(c.pairs()) == 0 {
		return errors.New("no question was answered on both sides")
	}
	return nil
}

func (c *evalComparison) pairs() []eval.Pair {
	return eval.Pairs(c.Sides[0].Outcomes, c.Sides[1].Outcomes)
}

// Incomplete returns an error that says what the numbers leave out on either side, or nil.
func (c *evalComparison) Incomplete() error {
	var errs []string
	for _, s := range c.Sides {
		if err := s.Incomplete(); err != nil {
			errs = append(errs, s.Config+": "+err.Error())
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.New(strings.Join(errs, "; "))
}

// differences compares the measures of pairs, and of off-topic messages if both sides were asked.
func (c *evalComparison) differences(pairs []eval.Pair) (list []difference) {
	add := func(name string, d eval.Difference) {
		list = append(list, difference{name, roundedScore(d.A), roundedScore(d.B), roundedScore(d.B - d.A), roundedScore(d.P)})
	}
	share := func(of func(eval.Outcome) bool) func(eval.Outcome) float64 {
		return func(o eval.Outcome) float64 {
			if of(o) {
				return 1
			}
			return 0
		}
	}
	add("nDCG@10", eval.Compare(pairs, func(o eval.Outcome) float64 { return o.NDCG }))
	add("recall@10", eval.Compare(pairs, func(o eval.Outcome) float64 { return o.RecallNear }))
	add("recall@100", eval.Compare(pairs, func(o eval.Outcome) float64 { return o.RecallFar }))
	add("MRR@10", eval.Compare(pairs, func(o eval.Outcome) float64 { return o.ReciprocalRank }))
	add("right@1", eval.Compare(pairs, share(func(o eval.Outcome) bool { return o.First })))
	add("right", eval.Compare(pairs, share(func(o eval.Outcome) bool { return o.Hit })))
	held := slices.DeleteFunc(slices.Clone(pairs), func(p eval.Pair) bool { return !p.A.Held || !p.B.Held })
	add("lost", eval.Compare(held, share(func(o eval.Outcome) bool { return o.Lost })))
	if n := min(len(c.Sides[0].OffTopic), len(c.Sides[1].OffTopic)); n > 0 {
		add("injected", eval.Compare(injectedPairs(c.Sides[0].OffTopic[:n], c.Sides[1].OffTopic[:n]), share(func(o eval.Outcome) bool { return len(o.Sources) > 0 })))
	}
	return list
}

// injectedPairs pairs the results of the same messages.
func injectedPairs(a, b []eval.OffTopic) (pairs []eval.Pair) {
	outcome := func(o eval.OffTopic) (out eval.Outcome) {
		for _, s := range o.Sources {
			out.Sources = append(out.Sources, s.Doc)
		}
		return out
	}
	for i := range a {
		pairs = append(pairs, eval.Pair{A: outcome(a[i]), B: outcome(b[i])})
	}
	return pairs
}

// Answer returns the comparison for JSON, with the n questions that changed most.
func (c *evalComparison) Answer(n int) any {
	pairs := c.pairs()
	a := comparisonAnswer{
		Object: "eval.compare", Data: c.Name, Queries: len(pairs), Measures: c.differences(pairs), Changed: []changedQuery{},
		A: sideAnswer{c.Sides[0].Config, c.Sides[0].Answer(0)}, B: sideAnswer{c.Sides[1].Config, c.Sides[1].Answer(0)},
	}
	a.A.Policy, a.B.Policy = c.Sides[0].Subject.Policy, c.Sides[1].Subject.Policy
	for _, p := range pairs {
		switch gain := p.Gain(); {
		case gain > 0:
			a.Better++
		case gain < 0:
			a.Worse++
		}
	}
	changed := eval.Changed(pairs)
	for _, p := range changed[:min(n, len(changed))] {
		a.Changed = append(a.Changed, changedQuery{p.A.Query.ID, p.A.Query.Text, c.outcome(0, p.A), c.outcome(1, p.B)})
	}
	a.More = len(changed) - len(a.Changed)
	return a
}

// outcome returns the outcome of a question on one side.
func (c *evalComparison) outcome(side int, o eval.Outcome) changedOutcome {
	grades := c.Sides[side].Data.Grades[o.Query.ID]
	rank := slices.IndexFunc(o.Ranking, func(id string) bool { return grades[id] > 0 })
	return changedOutcome{roundedScore(o.NDCG), rank + 1, o.Hit}
}

// Print writes the comparison for people, with the n questions that changed most.
func (c *evalComparison) Print(w io.Writer, n int, color bool) {
	p := painter{w, color}
	a := c.Answer(n).(comparisonAnswer)
	asked := terminal.Thousands(a.Queries) + " queries"
	if a.Queries == 1 {
		asked = "1 query"
	}
	p.row("compared", fmt.Sprintf("%s: %s of %s", terminal.Clean(c.Name), asked, c.Sides[0].Data.Judgments))
	for i, name := range []string{"a", "b"} {
		s := c.Sides[i]
		p.row(name, fmt.Sprintf("%s, policy %s: %s", terminal.Clean(s.Config), terminal.Clean(s.Subject.Policy), strings.Join(s.Subject.Stages, ", ")))
	}
	fmt.Fprintln(w)
	p.row("", p.faint("a        b        b - a    p        paired randomization test, two-sided"))
	for _, d := range a.Measures {
		note := ""
		if d.P <= significance {
			note = p.faint("better")
			if (d.Gain < 0) != (d.Name == "lost" || d.Name == "injected") {
				note = p.faint("worse")
			}
		}
		name := d.Name
		if name == "right" {
			name = fmt.Sprintf("right@%d", a.B.TopK)
			if a.A.TopK != a.B.TopK {
				name = fmt.Sprintf("right@%d,%d", a.A.TopK, a.B.TopK)
			}
		}
		p.row(name, strings.TrimRight(fmt.Sprintf("%-9.3f%-9.3f%s%-9s%s", d.A, d.B, p.paint("1", fmt.Sprintf("%-+9.3f", d.Gain)), shownP(d.P), note), " "))
	}
	fmt.Fprintln(w)
	sa, sb := eval.Summarise(c.Sides[0].Outcomes), eval.Summarise(c.Sides[1].Outcomes)
	both := func(name, a, b, note string) { p.row(name, fmt.Sprintf("%-16s%-16s%s", a, b, p.faint(note))) }
	short := func(d time.Duration) string { return terminal.Short(d, 1) }
	both("latency p50", short(sa.P50), short(sb.P50), "wall time of a search, nothing cached")
	both("        p95", short(sa.P95), short(sb.P95), "")
	ta, tb := cmp.Or(a.A.Tokens, &evalTokens{}), cmp.Or(a.B.Tokens, &evalTokens{})
	both("tokens", terminal.Thousands(ta.Chunks), terminal.Thousands(tb.Chunks), "to embed all chunks, about")
	both("", terminal.Thousands(int(ta.Questions)), terminal.Thousands(int(tb.Questions)), "to embed the questions")
	both("", terminal.Thousands(int(ta.Planner)), terminal.Thousands(int(tb.Planner)), "by the planner")
	if ta.Reranker+tb.Reranker > 0 {
		both("", terminal.Thousands(int(ta.Reranker)), terminal.Thousands(int(tb.Reranker)), "by the reranker")
	}
	if ta.Grader+tb.Grader > 0 {
		both("", terminal.Thousands(int(ta.Grader)), terminal.Thousands(int(tb.Grader)), "by the grader")
	}
	fmt.Fprintf(w, "\nnDCG@10 is better in b for %s, worse for %s, the same for %s\n", terminal.Thousands(a.Better), terminal.Thousands(a.Worse), terminal.Thousands(a.Queries-a.Better-a.Worse))
	for i, q := range a.Changed {
		head := fmt.Sprintf("changed %d", i+1)
		fmt.Fprintf(w, "\n%s  %s\n", p.paint("1", head), terminal.Fit(q.Text, maxWidth-len(head)-2))
		fmt.Fprintf(w, "  %s\n", p.faint(fmt.Sprintf("query %s, nDCG@10 %.3f, then %.3f", terminal.Clean(q.ID), q.A.NDCG, q.B.NDCG)))
		fmt.Fprintf(w, "  a  %s\n  b  %s\n", q.A, q.B)
	}
	if a.More > 0 {
		fmt.Fprintf(w, "\n%s more changed; --full shows them all\n", terminal.Thousands(a.More))
	}
}

// alpha is the largest p at which a difference counts as significant.
const significance = .05

// shownP formats a p value.
func shownP(p float64) string {
	if p < .0001 {
		return "<0.0001"
	}
	return fmt.Sprintf("%.4f", p)
}

// String says where the first relevant document is.
func (o changedOutcome) String() string {
	gets := "its request gets none"
	if o.Right {
		gets = "its request gets a relevant source"
	}
	if o.Rank == 0 {
		return "no relevant document among the first 100, and " + gets
	}
	return fmt.Sprintf("the first relevant document is number %d, and %s", o.Rank, gets)
}
