package bm25_test

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
)

// The ranking equals that of the formula, computed in the simplest way.
func TestSearchIsBM25(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibis", "jay"})
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(word, 0, 12), join), 1, 60).Draw(t, "texts")
		terms := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) bm25.Term {
			return bm25.Term{Text: word.Draw(t, "term"), Weight: rapid.SampledFrom([]float64{1, 0.3}).Draw(t, "weight")}
		}), 0, 6).Draw(t, "terms")
		k := rapid.IntRange(1, 70).Draw(t, "k")

		x := build(t, texts)
		got, err := x.Search(t.Context(), terms, k, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		want := slow(texts, terms)
		if len(got) != min(k, len(want)) {
			t.Fatalf("%d hits, want %d", len(got), min(k, len(want)))
		}
		for i, h := range got {
			if math.Abs(h.Score-want[h.Text]) > 1e-4 {
				t.Fatalf("text %d scores %v, want %v", h.Text, h.Score, want[h.Text])
			}
			if i > 0 && !ordered(got[i-1], h) {
				t.Fatalf("hits out of order: %v before %v", got[i-1], h)
			}
		}
	})
}

// Has is right for all terms, whatever else is in the segment.
func TestHas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := []string{"ant", "bee", "cat", "dog", "elk", "fox"}
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(rapid.SampledFrom(words), 0, 4), join), 1, 60).Draw(t, "texts")
		x := build(t, texts)
		for i, text := range texts {
			for _, word := range append(words, "gnu") {
				if got, want := x.Has(bm25.Ref{Text: i}, word), slices.Contains(strings.Fields(text), word); got != want {
					t.Fatalf("text %d, %q, has %s: %v", i, text, word, got)
				}
			}
		}
	})
}

// Of two terms in equally many texts, the one that texts repeat has a higher weight, up to a
// limit; in a small base the difference is small.
func TestRepeatedTermsWeighMore(t *testing.T) {
	weigh := func(texts, repeats int) float64 {
		list := make([]string, texts)
		for i := range list {
			list[i] = "see " + strings.Repeat("ant ", repeats)
		}
		for range 9 * texts {
			list = append(list, "bee")
		}
		x := build(t, list)
		return x.Meaning("ant").Weight / x.Meaning("see").Weight
	}
	for _, c := range []struct {
		texts, repeats  int
		atLeast, atMost float64
	}{
		{1000, 1, 1, 1},
		{1000, 4, 2.5, 4},
		{1000, 400, 4, 6}, // at the limits: "see" has half of the usual weight, "ant" three times
		{4, 4, 1, 1.25},
	} {
		if got := weigh(c.texts, c.repeats); got < c.atLeast || got > c.atMost {
			t.Errorf("%d repeats in each of %d texts weigh %.2f, want %v to %v", c.repeats, c.texts, got, c.atLeast, c.atMost)
		}
	}
}

// MaxScore never changes the result: the best k are the beginning of the whole list, which is too
// long for a threshold.
func TestMaxScoreIsExhaustive(t *testing.T) {
	x := build(t, corpus(20_000, 30))
	many := 200
	if testing.Short() {
		many = 40
	}
	for i, q := range queries(many) {
		all, err := x.Search(t.Context(), q, x.Len(), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range []int{1, 10, 50} {
			got, err := x.Search(t.Context(), q, k, nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(all[:min(k, len(all))], got); diff != "" {
				t.Fatalf("query %d, best %d (-all +best):\n%s", i, k, diff)
			}
		}
	}
}

func TestSearchEdges(t *testing.T) {
	cat := []bm25.Term{{Text: "cat", Weight: 1}}
	var none bm25.Index
	for name, f := range map[string]func() ([]bm25.Hit, error){
		"zero index": func() ([]bm25.Hit, error) { return none.Search(t.Context(), cat, 5, nil, nil) },
		"no segments": func() ([]bm25.Hit, error) {
			return bm25.NewIndex(nil, bm25.InOrder).Search(t.Context(), cat, 5, nil, nil)
		},
		"empty text":    func() ([]bm25.Hit, error) { return build(t, []string{""}).Search(t.Context(), cat, 5, nil, nil) },
		"no terms":      func() ([]bm25.Hit, error) { return build(t, []string{"cat"}).Search(t.Context(), nil, 5, nil, nil) },
		"nothing asked": func() ([]bm25.Hit, error) { return build(t, []string{"cat"}).Search(t.Context(), cat, 0, nil, nil) },
	} {
		if hits, err := f(); len(hits) != 0 || err != nil {
			t.Errorf("%s: %v, %v", name, hits, err)
		}
	}
	often := build(t, []string{strings.Repeat("cat ", 100_000), "cat"})
	hits, err := often.Search(t.Context(), cat, 5, nil, nil)
	if err != nil || len(hits) != 2 {
		t.Errorf("a term 100,000 times: %v, %v", hits, err)
	}
}

// Hits are appended to existing ones, also for a question that several goroutines search.
func TestSearchAppends(t *testing.T) {
	before := []bm25.Hit{{Ref: bm25.Ref{Segment: 7, Text: 7}, Score: 7}}
	f := func(x *bm25.Index, terms []bm25.Term) {
		t.Helper()
		want, err := x.Search(t.Context(), terms, 3, nil, nil)
		if err != nil || len(want) != 3 {
			t.Fatal(want, err)
		}
		got, err := x.Search(t.Context(), terms, 3, nil, slices.Clone(before))
		if diff := cmp.Diff(slices.Concat(before, want), got); err != nil || diff != "" {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
	f(build(t, []string{"cat", "cat dog", "dog cat", "cat"}), []bm25.Term{{Text: "cat", Weight: 1}})
	terms := []bm25.Term{{Text: "ant", Weight: 1}, {Text: "bee", Weight: 1}, {Text: "cat", Weight: 1}}
	f(spread(t, slices.Repeat([]string{"ant bee cat"}, 1<<16), 1<<14, bm25.InOrder), terms)
}

// Huge weights change only how terms compare to others: texts are still sorted by score, and equal
// ones in order.
func TestSearchWithGreatWeights(t *testing.T) {
	x := build(t, []string{"dog", "cat", "cat dog", "cat", "fox"})
	for _, weight := range []float64{1e3, 1e9, 1e300} {
		hits, err := x.Search(t.Context(), []bm25.Term{{Text: "cat", Weight: weight}, {Text: "dog", Weight: 1}}, 5, nil, nil)
		var texts []int
		for _, h := range hits {
			if texts = append(texts, h.Text); h.Score <= 0 {
				t.Errorf("weight %v: score %v", weight, h.Score)
			}
		}
		if diff := cmp.Diff([]int{1, 3, 2, 0}, texts); err != nil || diff != "" {
			t.Errorf("weight %v: %v (-want +got):\n%s", weight, err, diff)
		}
	}
}

func TestSearchStopsWhenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := build(t, []string{"cat"}).Search(ctx, []bm25.Term{{Text: "cat", Weight: 1}}, 1, nil, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want %v", err, context.Canceled)
	}
}

func join(words []string) string { return strings.Join(words, " ") }

// build indexes texts in one segment.
func build(t fatal, texts []string) *bm25.Index {
	t.Helper()
	return bm25.NewIndex([]*bm25.Live{open(t, image(t, new(bm25.Builder), texts)).Live(nil)}, bm25.InOrder)
}

func image(t fatal, b *bm25.Builder, texts []string) []byte {
	t.Helper()
	for _, text := range texts {
		if _, err := b.Add(text); err != nil {
			t.Fatal(err)
		}
	}
	image, err := b.Build()
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func open(t fatal, image []byte) *bm25.Segment {
	t.Helper()
	s, err := bm25.Open(image, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// fatal is a test or a rapid test.
type fatal interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

func ordered(a, b bm25.Hit) bool {
	return a.Score > b.Score || a.Score == b.Score && a.Text < b.Text
}

// slow scores every text by the textbook formula, with terms weighted by their repetition.
func slow(texts []string, terms []bm25.Term) map[int]float64 {
	bags := make([]map[string]float64, len(texts)) // frequency of each term, by text
	lengths, length, pairs := make([]float64, len(texts)), 0.0, 0.0
	for i, text := range texts {
		bags[i] = map[string]float64{}
		for _, w := range analysis.Terms(text) {
			bags[i][w]++
			lengths[i]++
		}
		length, pairs = length+lengths[i], pairs+float64(len(bags[i]))
	}
	n, usual := float64(len(texts)), max(1, min(2, length/max(1, pairs)))
	scores := map[int]float64{}
	for _, q := range terms {
		with, total := 0.0, 0.0
		for _, bag := range bags {
			if tf := bag[q.Text]; tf > 0 {
				with, total = with+1, total+tf
			}
		}
		idf := math.Log(1 + (n-with+0.5)/(with+0.5))
		repeated := min(3, (total+80*usual)/(with+80)/usual)
		for i, bag := range bags {
			if tf := bag[q.Text]; tf > 0 {
				norm := 1.2 * (1 - 0.75 + 0.75*lengths[i]*n/length)
				scores[i] += q.Weight * idf * repeated * tf * 2.2 / (tf + norm)
			}
		}
	}
	return scores
}
