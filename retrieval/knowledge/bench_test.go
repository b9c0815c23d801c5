package knowledge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/analysis"
	"sidenote/retrieval/filter"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkRetrieve measures one question to a small base, including sources and floor.
func BenchmarkRetrieve(b *testing.B) {
	base := knowledge.New("handbook")
	base.Swap(build(b, knowledgetest.Handbook()))
	q := retrieval.Query{Text: "How many weeks of parental leave do I get?", Settings: retrieval.DefaultSettings()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := base.Retrieve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkGroup alternately searches several bases together and one base with all their
// documents. "request-ratio" is the time of a request's search without caches in several bases,
// relative to one; "engine-ratio" excludes the selection of sources.
func BenchmarkGroup(b *testing.B) {
	for _, c := range []struct{ bases, documents int }{{2, 8}, {8, 8}, {8, 100}, {8, 2500}} {
		for _, filtered := range []bool{false, true} {
			b.Run(fmt.Sprintf("bases=%d/documents=%d/filter=%v", c.bases, c.documents, filtered), func(b *testing.B) {
				several, one, questions := groupAndOne(b, c.bases, c.documents)
				if filtered {
					for i := range questions {
						questions[i].Filter = &filter.Filter{Type: filter.Eq, Key: "even", Value: true}
					}
				}
				ask := func(r retrieval.Retriever, q retrieval.Query) float64 {
					start := time.Now()
					if _, err := r.Retrieve(b.Context(), q); err != nil {
						b.Fatal(err)
					}
					return time.Since(start).Seconds()
				}
				request := func(r retrieval.Retriever) retrieval.Retriever {
					return &retrieval.Pipeline{
						Bases: func(string) retrieval.Retriever { return r }, Joint: func(string) string { return "all" },
						Terms: new(analysis.Recent).Terms,
					}
				}
				ask(several, questions[0]) // measures the floor
				pairs := [][2]retrieval.Retriever{{request(several), request(one)}, {several, one}}
				var ratios [2][]float64
				for i := 0; b.Loop(); i++ {
					q, pair := questions[i%len(questions)], pairs[i%2]
					var took [2]float64
					for j := range took { // alternate the order: the second finds the processor's caches warm
						which := (i/2 + j) % 2
						took[which] = ask(pair[which], q)
					}
					ratios[i%2] = append(ratios[i%2], took[0]/took[1])
				}
				for i, unit := range []string{"request-ratio", "engine-ratio"} {
					if list := ratios[i]; len(list) > 0 {
						slices.Sort(list)
						b.ReportMetric(list[len(list)/2], unit)
					}
				}
			})
		}
	}
}

// groupAndOne returns bases of texts with a realistic distribution of words, as a group and as one
// base, and questions of six words.
func groupAndOne(b *testing.B, bases, documents int) (several *knowledge.Group, one *knowledge.Base, questions []retrieval.Query) {
	zipf := rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 10, 30_000)
	words := func(n int) string {
		var text strings.Builder
		for range n {
			fmt.Fprintf(&text, "w%d ", zipf.Uint64())
		}
		return text.String()
	}
	fill := func(id string, documents []chunk.Document) *knowledge.Base {
		content, _, err := knowledge.FromDocuments(b.Context(), documents, deps())
		if err != nil {
			b.Fatal(err)
		}
		base := knowledge.New(id)
		base.Swap(content)
		return base
	}
	var all []chunk.Document
	named, by := []retrieval.Ref{}, basesByID{}
	for i := range bases {
		id := fmt.Sprintf("b%d", i)
		list := make([]chunk.Document, documents)
		for j := range list {
			list[j] = chunk.Document{ID: fmt.Sprintf("%s/d%d", id, j), Text: words(150), Attributes: map[string]any{"even": j%2 == 0}}
		}
		named, all, by[id] = append(named, retrieval.Ref{Knowledge: id}), append(all, list...), fill(id, list)
	}
	questions = make([]retrieval.Query, 4096)
	for i := range questions {
		questions[i] = retrieval.Query{Text: words(6), Bases: named, Settings: retrieval.DefaultSettings()}
		questions[i].Settings.Deadline = time.Minute
	}
	return by.group(), fill("b0", all), questions
}

// BenchmarkRetrieveLong measures a question as long as a pasted text: each of its terms is looked
// up for the floor.
func BenchmarkRetrieveLong(b *testing.B) {
	base := knowledge.New("handbook")
	base.Swap(build(b, knowledgetest.Handbook()))
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, "w%d ", i)
	}
	q := retrieval.Query{Text: text.String() + "parental leave", Settings: retrieval.DefaultSettings()}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := base.Retrieve(b.Context(), q); err != nil {
			b.Fatal(err)
		}
	}
}
