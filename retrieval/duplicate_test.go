package retrieval_test

import (
	"context"
	"testing"

	"sidenote/retrieval"
)

// DuplicateOf finds the source that a duplicate was excluded for, even if two bases have documents
// of the same name.
func TestDuplicateOf(t *testing.T) {
	chunk := func(base, doc string, score float64, text string) retrieval.Source {
		return retrieval.Source{Knowledge: base, Doc: doc, Score: score, Text: text}
	}
	found := map[string]retrieval.Result{
		"hr": {Floor: 1, Sources: []retrieval.Source{chunk("hr", "leave.md", 9, "sixteen weeks"), chunk("hr", "old.md", 8, "sixteen weeks"), chunk("hr", "pay.md", 4, "monthly")}},
		"it": {Floor: 1, Sources: []retrieval.Source{chunk("it", "pay.md", 5, "by card"), chunk("it", "leave.md", 4, "sixteen weeks")}},
	}
	p := &retrieval.Pipeline{
		Bases: func(id string) retrieval.Retriever { return answering(found[id]) },
		Terms: func(text string) []string { return []string{text} },
	}
	res, err := p.Retrieve(t.Context(), retrieval.Query{Text: "q", Bases: []retrieval.Ref{{Knowledge: "hr"}, {Knowledge: "it"}}})
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Sources) != 3 || res.Excluded.Len() != 2 {
		t.Fatalf("%+v", res)
	}
	for _, x := range res.Excluded.List() {
		for i, s := range res.Sources {
			if got := retrieval.DuplicateOf(&x, &s); got != (i == 0) {
				t.Errorf("%s of %s: %v of %s of %s", x.Doc, x.Knowledge, got, s.Doc, s.Knowledge)
			}
		}
	}
	late := res.Excluded.List()[0]
	if late.Reason = retrieval.ExcludedTopK; retrieval.DuplicateOf(&late, &res.Sources[0]) {
		t.Error("fell for another reason")
	}
}

// answering returns a base that answers every query with res.
func answering(res retrieval.Result) retrieval.Retriever {
	return retrieval.Func(func(_ context.Context, _ retrieval.Query) (retrieval.Result, error) { return res, nil })
}
