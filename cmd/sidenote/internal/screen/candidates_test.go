package screen

import (
	"strings"
	"testing"

	"sidenote/proxy/explain"
	"sidenote/proxy/explain/explaintest"
	"sidenote/retrieval"
)

// All candidates of all bases are in one list in rank order, included or not; near-duplicates are
// listed with the candidate that they repeat.
func TestCandidates(t *testing.T) {
	var w strings.Builder
	Candidates(&w, explaintest.Found(t))
	const want = `search 7 → threshold 6 → duplicates 4 → per document 4 → top k 3
searched  2 bases in 1.5 ms: elsewhere, hr
floor     relevance 0.50, here a score of 2.00
terms     parent 3.00  leav 1.00  mani (nowhere)

     relevance   score strength
  1.      0.75    6.00     4.60 hr/a#0  A > Part
                                parent 4.00  leav 1.75  (whole document 0.25)
                                stands for hr/b#0, elsewhere/a#0
  2.      0.67    4.00     3.07 hr/c#0  C > Part
  3.      0.65    0.65     2.59 elsewhere/f#0  F > Part
 out      0.60    3.00     2.30 hr/d#0  D > Part
                                after the best 3
 out      0.33    1.00     0.77 hr/e#0  E > Part
                                score 1.0 < 2.0
                                leav 1.25  (further chunk -0.25)
`
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}

// Many terms take several lines, none wider than the terminal.
func TestTermLines(t *testing.T) {
	var terms []retrieval.ExplainedTerm
	for range 9 {
		terms = append(terms, retrieval.ExplainedTerm{Text: strings.Repeat("w", 12), Score: 1.5})
	}
	terms = append(terms, retrieval.ExplainedTerm{Text: strings.Repeat("x", 200), Score: 123.456})
	got := lines(parts(terms, 60), 60)
	if len(got) != 4 || strings.Join(strings.Fields(strings.Join(got[:3], " ")), " ") != strings.TrimSpace(strings.Repeat("wwwwwwwwwwww 1.50 ", 9)) {
		t.Errorf("%q", got)
	}
	for _, line := range got {
		if n := len([]rune(line)); n > 60 {
			t.Errorf("%d columns: %q", n, line)
		}
	}
}

// A misspelled word is shown with what was searched instead.
func TestTypedTerms(t *testing.T) {
	got := lines(parts([]retrieval.ExplainedTerm{{Text: "payments", Typed: "paymnets", Score: 1.5}}, 60), 60)
	if len(got) != 1 || got[0] != "paymnets → payments 1.50" {
		t.Errorf("%q", got)
	}
}

// Reranked and graded candidates are listed in that order, with their scores.
func TestCandidatesReranked(t *testing.T) {
	source := func(doc string, relevance, rerank float64) retrieval.Source {
		return retrieval.Source{Knowledge: "hr", Doc: doc, Score: 2, Relevance: relevance, RerankScore: new(rerank), Grade: retrieval.GradeRelevant}
	}
	f := &explain.SearchResult{Settings: retrieval.DefaultSettings(), Result: retrieval.Result{
		Sources: []retrieval.Source{source("low", .5, .98765), source("high", .75, .5)}, Retrieved: 3,
		Excluded: retrieval.NewExcludedList([]retrieval.Excluded{{Knowledge: "hr", Doc: "off", Relevance: .9, RerankScore: new(.125), Reason: retrieval.ExcludedGrade, Detail: "irrelevant: 0.125 < 0.3"}}),
		Reranked: &retrieval.Reranked{Upstream: "s", Model: "m", Documents: 3, Reason: retrieval.RerankOK},
		Graded:   &retrieval.Graded{By: retrieval.GradeByRerank, Reason: retrieval.RerankOK, Verdict: retrieval.GradeRelevant, Rounds: 2},
	}}
	f.Result.Sources[1].GradeScore = new(.9)
	var w strings.Builder
	Candidates(&w, f)
	const want = `search 3 → rerank 3 → threshold 3 → duplicates 3 → per document 3 → top k 3 → grade 2
rerank ok: m on s, 3 documents
grade ok: scores of the reranker, relevant after 2 rounds

     relevance   score
  1.      0.50    2.00 hr/low#0
                       rerank 0.988, relevant
  2.      0.75    2.00 hr/high#0
                       rerank 0.5, relevant 0.9
 out      0.90    0.00 hr/off#0
                       irrelevant: 0.125 < 0.3
                       rerank 0.125
`
	if w.String() != want {
		t.Errorf("got\n%s\nwant\n%s", w.String(), want)
	}
}
