// Package explaintest has what tests of searches look at.
package explaintest

import (
	"context"
	"strings"
	"testing"
	"time"

	"sidenote/proxy/explain"
	"sidenote/retrieval"
)

// Found is a search over bases of both kinds, with what makes candidates differ.
func Found(t testing.TB) *explain.SearchResult {
	t.Helper()
	chunk := func(base, doc string, score float64, text string) retrieval.Source {
		return retrieval.Source{Knowledge: base, Doc: doc, Name: strings.ToUpper(doc), Section: "Part", Score: score, Text: text}
	}
	answers := map[string]retrieval.Result{
		"hr": {Floor: 2, Sources: []retrieval.Source{
			chunk("hr", "a", 6, "one"), chunk("hr", "b", 5, "one"), chunk("hr", "c", 4, "two"), chunk("hr", "d", 3, "three"), chunk("hr", "e", 1, "four"),
		}},
		"elsewhere": {Sources: []retrieval.Source{chunk("elsewhere", "a", .7, "one"), chunk("elsewhere", "f", .65, "five")}},
	}
	p := &retrieval.Pipeline{
		Bases: func(id string) retrieval.Retriever {
			return retrieval.Func(func(context.Context, retrieval.Query) (retrieval.Result, error) {
				res := answers[id]
				res.Bases = []retrieval.Ref{{Knowledge: id}}
				return res, nil
			})
		},
		Terms: func(text string) []string { return []string{text} },
	}
	q := retrieval.Query{Text: "q", Settings: retrieval.DefaultSettings(), Bases: []retrieval.Ref{{Knowledge: "elsewhere"}, {Knowledge: "hr"}}}
	q.Settings.TopK = 3
	res, err := p.Retrieve(t.Context(), q)
	if err != nil {
		t.Fatal(err)
	}
	res.Took = 1500 * time.Microsecond
	return &explain.SearchResult{Result: res, Settings: q.Settings, Explained: retrieval.Explained{
		Floor: 2, Terms: []retrieval.ExplainedTerm{{Text: "parent", Score: 3}, {Text: "leav", Score: 1}, {Text: "mani"}},
		Hits: []retrieval.ExplainedHit{
			{Knowledge: "hr", Doc: "a", Terms: []retrieval.ExplainedTerm{{Text: "parent", Score: 4}, {Text: "leav", Score: 1.75}}, Document: .25},
			{Knowledge: "hr", Doc: "e", Terms: []retrieval.ExplainedTerm{{Text: "leav", Score: 1.25}}, Document: -.25},
		},
	}}
}
