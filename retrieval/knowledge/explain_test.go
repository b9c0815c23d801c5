package knowledge_test

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
)

// Explain agrees with Retrieve: the same chunks in the same order, shares of terms and document
// that add up to the score of each chunk, and the same floor. It reveals nothing about documents
// that a filter hides.
func TestExplainIsTrue(t *testing.T) {
	ctx := context.Background()
	documents := rapid.Custom(drawDocuments)
	bases := basesByID{}
	for i := range 3 {
		c, err := knowledge.Segmented(ctx, deps(), documents.Example(2*i), documents.Example(2*i+1))
		if err != nil {
			t.Fatal(err)
		}
		id := fmt.Sprintf("b%d", i)
		bases[id] = knowledge.New(id)
		bases[id].Swap(c)
	}
	g := bases.group()
	rapid.Check(t, func(t *rapid.T) {
		named := rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"b0", "b1", "b2"}), 1, 3, rapid.ID[string]).Draw(t, "bases")
		words := rapid.SliceOfN(rapid.SampledFrom(strings.Fields("ant bee cat dog elk fox gnu bee_cat")), 1, 6).Draw(t, "question")
		q := retrieval.Query{Text: strings.Join(words, " "), Bases: refs(named...)}
		if rapid.Bool().Draw(t, "earlier") {
			q.Previous = []retrieval.Turn{{Text: "ant elk", Weight: .4}}
		}
		q.Settings.NumCandidates = rapid.IntRange(1, 60).Draw(t, "candidates")
		if rapid.Bool().Draw(t, "filtered") {
			q.Filter = new(drawFilter(t, 2))
		}
		want, err := g.Retrieve(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		got, err := g.Explain(ctx, q)
		if err != nil {
			t.Fatal(err)
		}
		if len(got.Hits) != len(want.Sources) || math.Abs(got.Floor-want.Floor) > 1e-9 {
			t.Fatalf("%d chunks above %v, found are %d above %v", len(got.Hits), got.Floor, len(want.Sources), want.Floor)
		}
		told := map[string]bool{} // documents
		for i, s := range want.Sources {
			h, terms := got.Hits[i], 0.
			for _, term := range h.Terms {
				terms += term.Score
			}
			if h.Knowledge != s.Knowledge || h.Doc != s.Doc || h.Chunk != s.Chunk || len(h.Terms) == 0 || math.Abs(terms+h.Document-s.Score) > 1e-6 {
				t.Fatalf("%d. %+v; found is %s/%s#%d with %v", i+1, h, s.Knowledge, s.Doc, s.Chunk, s.Score)
			}
			document := h.Knowledge + "/" + h.Doc
			if told[document] && math.Abs(h.Document+.2*terms) > 1e-6 || !told[document] && h.Document < -1e-6 {
				t.Fatalf("%d. %+v: terms score %v; further chunks count .8, and no first one less than it has", i+1, h, terms)
			}
			told[document] = true
		}
	})
}

// Terms are in descending order of weight, and terms in no text are marked.
func TestExplainTerms(t *testing.T) {
	b := holding(t, "hr", map[string]string{
		"leave.md": "Parental leave is sixteen weeks.", "sick.md": "Sick leave needs a note.", "pay.md": "Pay comes monthly.", "trips.md": "Leave early.",
	})
	told, err := basesByID{"hr": b}.group().Explain(t.Context(), retrieval.Query{
		Text: "parental leave in locomotives", Bases: refs("hr"), Settings: retrieval.Settings{NumCandidates: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(told.Terms) != 3 || told.Terms[0].Text != "parent" || told.Terms[1].Text != "leav" || told.Terms[1].Score <= 0 ||
		!strings.HasPrefix(told.Terms[2].Text, "locomot") || told.Terms[2].Score != 0 {
		t.Errorf("terms %+v", told.Terms)
	}
	if len(told.Hits) != 1 || told.Hits[0].Doc != "leave.md" || len(told.Hits[0].Terms) != 2 || told.Hits[0].Terms[0].Text != "parent" {
		t.Errorf("found %+v", told.Hits)
	}
}

// Without an index or a search term there is nothing to explain.
func TestExplainNothing(t *testing.T) {
	g := basesByID{"new": knowledge.New("new"), "hr": holding(t, "hr", map[string]string{"a.md": "Parental leave."})}.group()
	for _, q := range []retrieval.Query{{Text: "leave", Bases: refs("new")}, {Text: "the of and", Bases: refs("hr")}, {Text: "leave"}} {
		if told, err := g.Explain(t.Context(), q); err != nil || told.Terms != nil || told.Hits != nil {
			t.Errorf("%q: %+v, %v", q.Text, told, err)
		}
	}
}
