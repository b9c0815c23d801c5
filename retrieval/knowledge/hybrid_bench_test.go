//go:build unix

package knowledge_test

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"testing"

	"sidenote/retrieval"
	"sidenote/retrieval/knowledge"
	"sidenote/retrieval/knowledge/chunk"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// BenchmarkHybrid measures the processor time of a question of ten words to a base with vectors of
// 384 dimensions, without embedding the question: by words, and by both. There are 10,000 chunks,
// or a hundred thousand with SIDENOTE_LONG=1.
func BenchmarkHybrid(b *testing.B) {
	chunks := 10_000
	if os.Getenv("SIDENOTE_LONG") != "" {
		chunks = 100_000
	}
	draw := rand.New(rand.NewPCG(1, 1))
	zipf := rand.NewZipf(draw, 1.1, 10, 200_000)
	words := func(n int) (text string) {
		for range n {
			text += fmt.Sprintf("w%d ", zipf.Uint64())
		}
		return text
	}
	var documents []chunk.Document
	for i := range chunks {
		documents = append(documents, chunk.Document{ID: fmt.Sprintf("d%06d", i), Text: words(60)})
	}
	vector := func(text string) []float32 { // in a cone, like vectors of texts
		h := fnv.New64a()
		_, _ = h.Write([]byte(text))
		r := rand.New(rand.NewPCG(h.Sum64(), 1))
		v := make([]float32, 384)
		for i := range v {
			v[i] = float32(r.NormFloat64()) + .5
		}
		return v
	}
	c, err := knowledge.Embed(b.Context(), deps(), vector, documents)
	if err != nil {
		b.Fatal(err)
	}
	base := knowledge.New("kb")
	base.Swap(c)
	g := basesByID{"kb": base}.group()
	var questions []retrieval.Query
	vectors := map[string][]float32{}
	for range 200 {
		q := questionOf(words(10), "kb")
		questions, vectors[q.Text] = append(questions, q), vector(q.Text)
	}
	ask := func(b *testing.B) {
		b.ReportAllocs()
		knowledgetest.Measure(b, func(i int) {
			if res, err := g.Retrieve(b.Context(), questions[i%len(questions)]); err != nil || res.Degraded != "" {
				b.Fatal(res.Degraded, err)
			}
		})
	}
	b.Run("words", ask)
	g.Questions = questionFunc(func(_ context.Context, text string) ([]float32, error) { return vectors[text], nil })
	b.Run("both", ask)
}
