package bm25_test

import (
	"context"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/index/bm25"
)

// bests keeps the Best of some questions across changes.
type bests struct {
	history *history
	index   *bm25.Index
	kept    []bm25.Best // by question
	quick   int         // number found without searching all texts
}

// follow updates bests to the current history. The greatest score of each question must equal that
// of a search. question returns the terms of a question by number.
func (b *bests) follow(t fatal, question func(n int) []bm25.Term) {
	t.Helper()
	x := b.history.index()
	change := x.Since(b.index, b.kept)
	for n := range b.kept {
		terms, before := question(n), &b.kept[n]
		for _, term := range terms {
			if err := x.Known(term.Text, change); err != nil {
				t.Fatal(err)
			}
		}
		if b.index == nil {
			before = nil
		} else if again, ok := x.Again(terms, before, change); ok {
			b.quick++
			if want := best(t, x, terms); again.Score != want {
				t.Fatalf("question %d: %v without a search, want %v", n, again.Score, want)
			}
		}
		got, err := x.Best(context.Background(), terms, before, change)
		if want := best(t, x, terms); err != nil || got.Score != want {
			t.Fatalf("question %d: %v, %v; want %v", n, got.Score, err, want)
		}
		b.kept[n] = got
	}
	b.index = x
}

func best(t fatal, x *bm25.Index, terms []bm25.Term) float64 {
	t.Helper()
	hits, err := x.Search(context.Background(), terms, 1, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(hits) == 0 {
		return 0
	}
	return hits[0].Score
}

// Whatever the history of the texts, the greatest score that is updated from an earlier one equals
// that of a search, to the last bit. Deleted texts may become live again, as when an older copy of
// a state folder is restored.
func TestBestIsThatOfSearch(t *testing.T) {
	word := rapid.SampledFrom([]string{"ant", "bee", "cat", "dog", "elk", "fox", "gnu"})
	body := rapid.Map(rapid.SliceOfN(word, 0, 6), join)
	terms := func(t *rapid.T) (terms []bm25.Term) {
		for _, w := range rapid.SliceOfN(word, 0, 5).Draw(t, "terms") {
			terms = append(terms, bm25.Term{Text: w, Weight: 1})
		}
		return terms
	}
	rapid.Check(t, func(t *rapid.T) {
		b, next := &bests{history: new(history), kept: make([]bm25.Best, 4)}, 0
		questions := make([][]bm25.Term, len(b.kept))
		for n := range questions {
			questions[n] = terms(t)
		}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				var batch []text
				for _, s := range rapid.SliceOfN(body, 0, 60).Draw(t, "texts") {
					next += 7919
					batch = append(batch, text{next % (1 << 20), s})
				}
				b.history.add(t, batch)
			},
			"remove": func(t *rapid.T) {
				one := rapid.IntRange(1, 40).Draw(t, "one in")
				b.history.remove(func(key int) bool { return key%one == 0 })
			},
			"revive": func(t *rapid.T) {
				if n := len(b.history.parts); n > 0 {
					b.history.parts[rapid.IntRange(0, n-1).Draw(t, "part")].dead = nil
				}
			},
			"merge": func(t *rapid.T) {
				from := rapid.IntRange(0, len(b.history.parts)).Draw(t, "from")
				b.history.merge(t, from, rapid.IntRange(from, len(b.history.parts)).Draw(t, "to"))
			},
			"ask": func(t *rapid.T) { questions[rapid.IntRange(0, len(questions)-1).Draw(t, "number")] = terms(t) },
			"":    func(t *rapid.T) { b.follow(t, func(n int) []bm25.Term { return questions[n] }) },
		})
	})
}

// After a small change of many texts, hardly any question is searched again, even if a rare term
// replaced another.
func TestBestIsFoundAgain(t *testing.T) {
	bodies, r := corpus(20_000, 20), rand.New(rand.NewPCG(4, 2))
	h := new(history)
	add := func(first, n int) {
		var batch []text
		for key := first; key < first+n; key++ {
			batch = append(batch, text{key, bodies[key]})
		}
		h.add(t, batch)
	}
	add(0, 10_000)
	add(10_000, 9_000)
	qs := queries(40)
	b := &bests{history: h, kept: make([]bm25.Best, len(qs))}
	b.follow(t, func(n int) []bm25.Term { return qs[n] })
	const steps = 20
	for step := range steps {
		add(19_000+step*10, 10)
		h.remove(func(int) bool { return r.IntN(2000) == 0 })
		if step%5 == 4 {
			h.merge(t, 2, len(h.parts))
		}
		other := queries(len(qs) + step + 1)[len(qs)+step]
		qs[step%len(qs)][9] = other[9]
		b.follow(t, func(n int) []bm25.Term { return qs[n] })
	}
	if all := steps * len(qs); b.quick < all*9/10 {
		t.Errorf("%d of %d were found without a search", b.quick, all)
	}
}

// The guess passed to a sampler does not change the result.
func TestSamplerGuesses(t *testing.T) {
	h, texts := new(history), corpus(3000, 20)
	for part := range 3 {
		var batch []text
		for key := part; key < len(texts); key += 3 {
			batch = append(batch, text{key, texts[key]})
		}
		h.add(t, batch)
	}
	h.remove(func(key int) bool { return key%5 == 0 })
	x := h.index()
	b := &bests{history: h, kept: make([]bm25.Best, 5)}
	qs := queries(len(b.kept))
	b.follow(t, func(n int) []bm25.Term { return qs[n] })
	h.add(t, []text{{len(texts), texts[0]}})
	h.remove(func(key int) bool { return key == 7 })
	checkSampler(t, x, nil)
	now := h.index()
	checkSampler(t, now, now.Since(b.index, b.kept))
}

func checkSampler(t *testing.T, x *bm25.Index, change *bm25.Change) {
	t.Helper()
	s := x.Sampler(change)
	last := ""
	for pick := 0.0; pick < 1; pick += 1.0 / 1024 {
		want := x.Sample(pick)
		for _, guess := range []string{"", "no such term", last, want} {
			if got := s.Sample(pick, guess); got != want {
				t.Fatalf("at %v, expecting %q: %q, want %q", pick, guess, got, want)
			}
		}
		last = want
	}
}

// A Best that was moved to other segments with the same texts is as good as any other.
func TestBestMoves(t *testing.T) {
	h, bodies := new(history), corpus(3000, 20)
	for first := 0; first < len(bodies); first += 500 {
		var batch []text
		for key := first; key < first+500; key++ {
			batch = append(batch, text{key, bodies[key]})
		}
		h.add(t, batch)
	}
	qs := queries(20)
	b := &bests{history: h, kept: make([]bm25.Best, len(qs))}
	b.follow(t, func(n int) []bm25.Term { return qs[n] })
	h.merge(t, 1, 3)
	x := h.index()
	change, moved := x.Since(b.index, b.kept), 0
	for n := range b.kept {
		was := b.kept[n]
		best, ok := change.Move(&was)
		if !ok {
			var err error
			if best, err = x.Best(t.Context(), qs[n], &was, change); err != nil {
				t.Fatal(err)
			}
		} else {
			moved++
		}
		if best.Score != was.Score {
			t.Errorf("question %d: %v, was %v", n, best.Score, was.Score)
		}
		b.kept[n] = best
	}
	if moved == 0 || moved == len(qs) {
		t.Errorf("%d of %d were moved", moved, len(qs))
	}
	b.index = x
	h.add(t, []text{{len(bodies), bodies[0]}})
	b.follow(t, func(n int) []bm25.Term { return qs[n] })
}
