package bm25_test

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// A span has the score of the formula, wherever its segment ends, and a single text that of
// Search.
func TestSpans(t *testing.T) {
	words := []string{"ant", "bee", "cat", "dog", "elk", "fox"}
	terms := []bm25.Term{{Text: "ant", Weight: 1}, {Text: "bee", Weight: .5}, {Text: "gnu", Weight: 1}, {Text: "ant", Weight: 1}}
	rapid.Check(t, func(t *rapid.T) {
		documents := rapid.SliceOfN(rapid.SliceOfN(rapid.Map(rapid.SliceOfN(rapid.SampledFrom(words), 0, 8), join), 1, 5), 1, 12).Draw(t, "documents")
		cut := rapid.IntRange(0, len(documents)).Draw(t, "documents of the first segment")
		var texts []string
		var live []*bm25.Live
		var whole, parts []bm25.Span
		for _, list := range [][][]string{documents[:cut], documents[cut:]} {
			var part []string
			for _, d := range list {
				whole = append(whole, bm25.Span{First: len(texts), End: len(texts) + len(d)})
				parts = append(parts, bm25.Span{Segment: len(live), First: len(part), End: len(part) + len(d)})
				texts, part = append(texts, d...), append(part, d...)
			}
			live = append(live, open(t, image(t, new(bm25.Builder), part)).Live(nil))
		}
		x := build(t, texts)
		backwards := rapid.Permutation(whole).Draw(t, "in this order")
		got := x.Spans(terms, backwards)
		for i, s := range backwards {
			if want := spanScore(x, texts, s, terms); math.Abs(got[i]-want) > 1e-4 {
				t.Fatalf("texts %d to %d score %v, want %v", s.First, s.End, got[i], want)
			}
		}
		if diff := cmp.Diff(x.Spans(terms, whole), bm25.NewIndex(live, bm25.InOrder).Spans(terms, parts)); diff != "" {
			t.Fatalf("in two segments (-one +two):\n%s", diff)
		}
		hits, err := x.Search(t.Context(), terms, len(texts), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, h := range hits {
			if got := x.Spans(terms, []bm25.Span{{First: h.Text, End: h.Text + 1}})[0]; got != h.Score {
				t.Fatalf("text %d alone scores %v, in a search %v", h.Text, got, h.Score)
			}
		}
	})
}

// spanScore computes the score of a span from its words.
func spanScore(x *bm25.Index, texts []string, s bm25.Span, terms []bm25.Term) (score float64) {
	length := float64(len(strings.Fields(join(texts))))
	all := strings.Fields(join(texts[s.First:s.End]))
	n := float64(s.End - s.First)
	norm := 1.2 * (1 - .75 + .75*float64(len(all))/n/(length/float64(len(texts))))
	for _, t := range terms {
		freq := 0.0
		for _, w := range all {
			if w == t.Text {
				freq++
			}
		}
		if freq /= math.Pow(n, .7); freq > 0 {
			score += t.Weight * x.Meaning(t.Text).Weight * 2.2 * freq / (freq + norm)
		}
	}
	return score
}

// BenchmarkSpans measures scoring the documents of the best 50 texts in addition to searching for
// them: documents of 4 texts, and of 400.
func BenchmarkSpans(b *testing.B) {
	texts := corpus(20_000, 120)
	x := build(b, texts)
	qs := queries(500)
	b.Run("search", func(b *testing.B) { knowledgetest.Measure(b, func(i int) { ask(b, x, qs[i%len(qs)], 50, nil) }) })
	for _, size := range []int{4, 400} {
		var spans [][]bm25.Span
		for _, q := range qs {
			hits, err := x.Search(b.Context(), q, 50, nil, nil)
			if err != nil {
				b.Fatal(err)
			}
			var list []bm25.Span
			for _, h := range hits {
				list = append(list, bm25.Span{First: h.Text / size * size, End: h.Text/size*size + size})
			}
			spans = append(spans, list)
		}
		b.Run(fmt.Sprintf("spans/texts=%d", size), func(b *testing.B) {
			knowledgetest.Measure(b, func(i int) { x.Spans(qs[i%len(qs)], spans[i%len(qs)]) })
		})
	}
}
