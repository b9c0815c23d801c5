package explain_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"sidenote/proxy/explain"
	"sidenote/proxy/explain/explaintest"
	"sidenote/retrieval"
)

// Scripts see the same candidates.
func TestCandidatesForPrograms(t *testing.T) {
	f := explaintest.Found(t)
	answer := explain.NewLookup(&f.Result)
	f.Explain(&answer)
	first, err := json.Marshal(answer.Data[0])
	if err != nil {
		t.Fatal(err)
	}
	if want := `"terms":[{"term":"parent","score":4},{"term":"leav","score":1.75}],"document_score":0.25,"duplicates":["hr/b#0","elsewhere/a#0"]}`; !strings.HasSuffix(string(first), want) {
		t.Errorf("%s", first)
	}
	if answer.Floor != 2 || len(answer.Terms) != 3 || answer.Terms[0].Text != "parent" || answer.Data[1].Duplicates != nil || answer.Data[1].Terms != nil {
		t.Errorf("%+v", answer)
	}
	for _, x := range answer.Excluded {
		if (x.Doc == "e") != (len(x.Terms) == 1) {
			t.Errorf("%+v", x)
		}
	}
}

// Candidates are in the order of their strength, and without one in that of their relevance.
func TestCandidatesByStrength(t *testing.T) {
	source := func(doc string, relevance float64, strength float32) retrieval.Source {
		return retrieval.Source{Knowledge: "hr", Doc: doc, Relevance: relevance, Strength: strength}
	}
	order := func(strengths [3]float32) string {
		out := []retrieval.Excluded{{Knowledge: "hr", Doc: "out", Relevance: .7, Strength: strengths[2], Reason: retrieval.ExcludedTopK}}
		f := explain.SearchResult{Settings: retrieval.DefaultSettings(), Result: retrieval.Result{
			Sources: []retrieval.Source{source("first", .8, strengths[0]), source("second", .6, strengths[1])}, Excluded: retrieval.NewExcludedList(out),
		}}
		var all []string
		for _, c := range f.Candidates() {
			all = append(all, c.Doc)
		}
		return strings.Join(all, " ")
	}
	if got := order([3]float32{5, 4, 3}); got != "first second out" {
		t.Errorf("by strength: %s", got)
	}
	if got := order([3]float32{}); got != "first out second" {
		t.Errorf("by relevance: %s", got)
	}
}

// The requirement for candidates comes from the policy, the base, or the question.
func TestFloorLine(t *testing.T) {
	f := explaintest.Found(t)
	f.Settings.Thresholds = []retrieval.Threshold{{Knowledge: "elsewhere", Relevance: .6}, {Knowledge: "other", Relevance: .9}}
	if got := f.Floor(); got != "relevance 0.50, here a score of 2.00; elsewhere: relevance 0.60" {
		t.Error(got)
	}
	f.Settings.ScoreThreshold = 1.5
	if got := f.Floor(); got != "a score of 1.5, of any base" {
		t.Error(got)
	}
	if got := (&explain.SearchResult{Settings: retrieval.DefaultSettings()}).Floor(); got != "" {
		t.Error(got)
	}
}

// A candidate needs the relevance that its base or the policy requires, which the page draws as a
// line.
func TestLeastRelevance(t *testing.T) {
	least := func(f *explain.SearchResult) string {
		var all []string
		for _, c := range f.Candidates() {
			all = append(all, fmt.Sprintf("%s/%s %.2f", c.Knowledge, c.Doc, c.RequiredRelevance))
		}
		return strings.Join(all, ", ")
	}
	f := explaintest.Found(t)
	if got := least(f); got != "hr/a 0.50, hr/c 0.50, elsewhere/f 0.00, hr/d 0.50, hr/e 0.50" {
		t.Error(got)
	}
	f.Settings.Thresholds = []retrieval.Threshold{{Knowledge: "elsewhere", Relevance: .6}}
	if got := least(f); !strings.Contains(got, "elsewhere/f 0.60") || !strings.Contains(got, "hr/d 0.50") {
		t.Error(got)
	}
	f.Settings.ScoreThreshold = 1
	if got := least(f); !strings.Contains(got, "hr/e 0.33") || !strings.Contains(got, "elsewhere/f 1.00") {
		t.Error(got)
	}
}
