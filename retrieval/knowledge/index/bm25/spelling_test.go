package bm25_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/analysis"
	"sidenote/retrieval/knowledge/index/bm25"
	"sidenote/retrieval/knowledge/knowledgetest"
)

// Nearest finds exactly the terms within the edits that live and allowed texts have, whatever the
// segments.
func TestNearest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[bcdf]{2,6}`)
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(word, 0, 4), join), 1, 12).Draw(t, "texts")
		perSegment := rapid.IntRange(1, 12).Draw(t, "texts of a segment")
		var live []*bm25.Live
		var allow []bm25.Bitmap
		want := map[string]bool{}
		typed, edits := word.Draw(t, "typed"), rapid.IntRange(1, 2).Draw(t, "edits")
		filtered := rapid.Bool().Draw(t, "filtered")
		for part := range slices.Chunk(texts, perSegment) {
			var dead, allowed bm25.Bitmap
			for i, text := range part {
				isDead, isAllowed := rapid.Bool().Draw(t, "dead"), rapid.Bool().Draw(t, "allowed")
				if isDead {
					dead.Add(i)
				}
				if isAllowed {
					allowed.Add(i)
				}
				for _, term := range analysis.Terms(text) {
					if !isDead && (isAllowed || !filtered) && len(term) > 2 && len(typed) > 2 && analysis.Edits(typed, term, edits) <= edits && (edits == 1 || typed[0] == term[0]) {
						want[term] = true
					}
				}
			}
			live, allow = append(live, open(t, image(t, new(bm25.Builder), part)).Live(dead)), append(allow, allowed)
		}
		if !filtered {
			allow = nil
		}
		x := bm25.NewIndex(live, bm25.InOrder)
		got := x.Nearest(typed, edits, allow, nil)
		for _, term := range got {
			if !want[term] || !x.Contains(term, allow) {
				t.Errorf("%q is not near %q in %q", term, typed, texts)
			}
			delete(want, term)
		}
		if len(want) > 0 {
			t.Errorf("%q: missing %v in %q", typed, want, texts)
		}
	})
}

// Texts full of similar words are not all compared or returned.
func TestNearestIsBounded(t *testing.T) {
	var b strings.Builder
	for _, p := range "bcdfghjklmnpqrtvwxz" {
		for _, q := range "bcdfghjklmnpqrtvwxz" {
			fmt.Fprintf(&b, "kern%c%cel ", p, q)
		}
	}
	if got := build(t, []string{b.String()}).Nearest("kernbbel", 2, nil, nil); len(got) != bm25.MostNear {
		t.Errorf("%d terms", len(got))
	}
}

// Alternatives of a word count as one: a text scores as if each of them were the one that it has
// most, and that were as common as the most common of them.
func TestAlternativesCountAsOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.SampledFrom([]string{"ant", "bee", "cat", "dog", "elk", "fox"})
		texts := rapid.SliceOfN(rapid.Map(rapid.SliceOfN(word, 0, 8), join), 1, 40).Draw(t, "texts")
		var live []*bm25.Live
		for part := range slices.Chunk(texts, rapid.IntRange(1, 40).Draw(t, "texts of a segment")) {
			live = append(live, open(t, image(t, new(bm25.Builder), part)).Live(nil))
		}
		x := bm25.NewIndex(live, bm25.InOrder)
		either := rapid.SliceOfNDistinct(word, 1, 3, rapid.ID[string]).Draw(t, "alternatives")
		terms := []bm25.Term{{Text: "fox", Weight: 1}}
		for _, a := range either {
			terms = append(terms, bm25.Term{Text: a, Weight: .5, Of: "typo"})
		}
		search := func(x *bm25.Index, terms ...bm25.Term) []bm25.Hit {
			hits, err := x.Search(t.Context(), terms, len(texts), nil, nil)
			if err != nil {
				t.Fatal(err)
			}
			return hits
		}
		got := search(x, terms...)
		scores := map[bm25.Ref]float64{}
		least := 0.0 // the least weight of the alternatives
		for _, a := range either {
			if m := x.Meaning(a); m.Known && (least == 0 || m.Weight < least) {
				least = m.Weight
			}
		}
		for _, h := range search(x, bm25.Term{Text: "fox", Weight: 1}) {
			scores[h.Ref] += h.Score
		}
		best := map[bm25.Ref]float64{}
		for _, a := range either {
			m := x.Meaning(a)
			if !m.Known {
				continue
			}
			for _, h := range search(x, bm25.Term{Text: a, Weight: .5 * least / m.Weight}) {
				best[h.Ref] = max(best[h.Ref], h.Score)
			}
		}
		for ref, score := range best {
			scores[ref] += score
		}
		if len(got) != len(scores) {
			t.Fatalf("%d hits, want %d", len(got), len(scores))
		}
		for _, h := range got {
			if d := h.Score - scores[h.Ref]; d > 1e-4 || d < -1e-4 {
				t.Fatalf("%v scores %v, want %v", h.Ref, h.Score, scores[h.Ref])
			}
		}
		for i, spans := range got { // and as a span
			one := x.Spans(terms, []bm25.Span{{Segment: spans.Segment, First: spans.Text, End: spans.Text + 1}})
			if d := one[0] - got[i].Score; d > 1e-4 || d < -1e-4 {
				t.Fatalf("as a span %v scores %v", got[i], one[0])
			}
		}
	})
}

// With one alternative, a word scores as that one does at its weight.
func TestOneAlternative(t *testing.T) {
	x := build(t, []string{"ant bee", "bee", "cat"})
	search := func(of string) []bm25.Hit {
		hits, err := x.Search(t.Context(), []bm25.Term{{Text: "bee", Weight: .5, Of: of}}, 3, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return hits
	}
	if diff := cmp.Diff(search(""), search("bea")); diff != "" {
		t.Error(diff)
	}
}

// BenchmarkNearest looks for a misspelled word among a million terms in eight segments.
func BenchmarkNearest(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	syllables := strings.Fields("ba con de ex fi gra hu in jo ka lo mer no or pa qui re sta ter un ver wi xo ya zen tra ple ment tor son")
	word := func() string {
		var w strings.Builder
		for range 2 + r.IntN(4) {
			w.WriteString(syllables[r.IntN(len(syllables))])
		}
		w.WriteByte(byte('a' + r.IntN(26)))
		return w.String()
	}
	var live []*bm25.Live
	var all []string
	for range 8 {
		var texts []string
		for range 1250 {
			var words []string
			for range 100 {
				words = append(words, word())
			}
			all = append(all, words...)
			texts = append(texts, strings.Join(words, " "))
		}
		live = append(live, open(b, image(b, new(bm25.Builder), texts)).Live(nil))
	}
	x := bm25.NewIndex(live, bm25.InOrder)
	x.Nearest("warming", 1, nil, nil)
	for _, edits := range []int{1, 2} {
		b.Run(fmt.Sprintf("edits=%d", edits), func(b *testing.B) {
			knowledgetest.Measure(b, func(i int) {
				w := []byte(all[i*7919%len(all)])
				n := len(w) / 2
				w[n], w[n-1] = w[n-1], w[n]
				x.Nearest(string(w), edits, nil, nil)
			})
		})
	}
	b.Run("make", func(b *testing.B) {
		knowledgetest.Measure(b, func(int) { x.Respell() })
		b.ReportMetric(float64(x.Respell()), "terms")
	})
}
