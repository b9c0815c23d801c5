package knowledge_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/document"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkRetrieve is one question to a small base, sources and floor included.
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

// BenchmarkGroup asks several bases together, and one base that has all their documents, in
// turn: "ratio" is what the first takes of what the second does.
func BenchmarkGroup(b *testing.B) {
	for _, c := range []struct{ bases, documents int }{{2, 8}, {8, 8}, {8, 100}, {8, 2500}} {
		for _, filtered := range []bool{false, true} {
			b.Run(fmt.Sprintf("bases=%d/documents=%d/filter=%v", c.bases, c.documents, filtered), func(b *testing.B) {
				draw := rand.New(rand.NewPCG(1, 2))
				zipf := rand.NewZipf(draw, 1.1, 10, 30_000)
				words := func(n int) string {
					var text strings.Builder
					for range n {
						fmt.Fprintf(&text, "w%d ", zipf.Uint64())
					}
					return text.String()
				}
				bases, named := shelves{}, []retrieval.Ref{}
				var all []document.Document
				fill := func(id string, documents []document.Document) *knowledge.Base {
					content, _, err := knowledge.FromDocuments(b.Context(), documents, deps())
					if err != nil {
						b.Fatal(err)
					}
					base := knowledge.New(id)
					base.Swap(content)
					return base
				}
				for i := range c.bases {
					id := fmt.Sprintf("b%d", i)
					var documents []document.Document
					for j := range c.documents {
						documents = append(documents, document.Document{ID: fmt.Sprintf("%s/d%d", id, j), Text: words(150), Attributes: map[string]any{"even": j%2 == 0}})
					}
					bases[id], named, all = fill(id, documents), append(named, retrieval.Ref{Knowledge: id}), append(all, documents...)
				}
				one, g := fill("all", all), bases.group()
				questions := make([]retrieval.Query, 4096)
				for i := range questions {
					questions[i] = retrieval.Query{Text: words(10), Bases: named, Settings: retrieval.DefaultSettings()}
					if filtered {
						questions[i].Filter = &retrieval.Filter{Type: retrieval.FilterEq, Key: "even", Value: true}
					}
				}
				ask := func(r retrieval.Retriever, q retrieval.Query) time.Duration {
					start := time.Now()
					if _, err := r.Retrieve(b.Context(), q); err != nil {
						b.Fatal(err)
					}
					return time.Since(start)
				}
				ask(g, questions[0]) // measures the floor
				var ratios []float64
				var together time.Duration
				for i := 0; b.Loop(); i++ {
					q := questions[i%len(questions)]
					var several, single time.Duration
					if i%2 == 0 {
						several, single = ask(g, q), ask(one, q)
					} else {
						single, several = ask(one, q), ask(g, q)
					}
					together += several
					ratios = append(ratios, several.Seconds()/single.Seconds())
				}
				slices.Sort(ratios)
				b.ReportMetric(ratios[len(ratios)/2], "ratio")
				b.ReportMetric(float64(together.Microseconds())/float64(len(ratios)), "µs/question")
			})
		}
	}
}
