package enginetest

import (
	"math"
	"os"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/eval"
	"sidenote/retrieval/knowledge/chunk"
)

// Collections returns the names of test collections: all of them, or where tests are short one of some
// hundred documents.
func Collections() []string {
	if testing.Short() {
		return []string{"cranfield"}
	}
	return []string{"cranfield", "drcd", "scifact"}
}

// Ranking compares nDCG@10 of a test collection with that of an embedded base, by words: it may be
// worse by at most most. It asks every step-th question. It skips if the folder of the collection does
// not exist.
func Ranking(t *testing.T, open Opener, dir, id string, step int, most float64) {
	t.Helper()
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no test collection: %v", err)
	}
	c, err := eval.Read(t.Context(), dir, "")
	if err != nil {
		t.Fatal(err)
	}
	var docs []chunk.Document
	for _, d := range c.Documents {
		docs = append(docs, chunk.Document{ID: d.ID, Name: d.Title, Text: d.Text})
	}
	b := NewBase(t, open, id, nil)
	b.Fill(t, docs)
	want := embedded(t, docs)
	var ours, theirs float64
	floors, asked := 0, 0
	for i, q := range c.Queries {
		if i%step > 0 {
			continue
		}
		asked++
		got, wanted := ask(t, b, query(q.Text)), ask(t, want, query(q.Text))
		ours += c.Grades[q.ID].NDCG(top(got.Sources), 10)
		theirs += c.Grades[q.ID].NDCG(top(wanted.Sources), 10)
		if math.Abs(got.Floor-wanted.Floor) > .1*wanted.Floor {
			floors++
		}
	}
	ours, theirs = ours/float64(asked), theirs/float64(asked)
	t.Logf("nDCG@10 of %d questions: %.4f, embedded %.4f; %d floors differ by more than a tenth", asked, ours, theirs, floors)
	if ours < theirs-most {
		t.Errorf("nDCG@10 %.4f, embedded %.4f", ours, theirs)
	}
	if floors > asked/10 {
		t.Errorf("%d of %d floors differ by more than a tenth", floors, asked)
	}
}

// top returns the ids of the ten best documents.
func top(sources []retrieval.Source) (ids []string) {
	for _, s := range eval.Rank(sources) {
		if ids = append(ids, s.Doc); len(ids) == 10 {
			break
		}
	}
	return ids
}
