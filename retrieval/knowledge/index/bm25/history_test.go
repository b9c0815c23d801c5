package bm25_test

import (
	"bytes"
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval/knowledge/index/bm25"
)

// A text is ordered by its key, whatever its segment.
type text struct {
	key  int
	body string
}

// A part is a segment with the data of its owner.
type part struct {
	segment *bm25.Segment
	texts   []text
	dead    bm25.Bitmap

	live *bm25.Live  // the last result of Live
	gone bm25.Bitmap // texts that were dead in it
}

// A history is a sequence of changes of texts.
type history struct{ parts []part }

func (h *history) add(t fatal, texts []text) {
	slices.SortFunc(texts, func(a, b text) int { return cmp.Compare(a.key, b.key) })
	h.parts = append(h.parts, part{segment: open(t, image(t, new(bm25.Builder), bodies(texts))), texts: texts})
}

// remove marks random texts as dead.
func (h *history) remove(coin func(key int) bool) {
	for i := range h.parts {
		p := &h.parts[i]
		p.dead = slices.Clone(p.dead)
		for n, text := range p.texts {
			if coin(text.key) {
				p.dead.Add(n)
			}
		}
	}
}

// merge merges the parts from to to.
func (h *history) merge(t fatal, from, to int) {
	old := &history{parts: h.parts[from:to]}
	img, refs, err := bm25.Merge(old.live(), old.compare)
	if err != nil {
		t.Fatal(err)
	}
	var texts []text
	for _, r := range refs {
		texts = append(texts, old.text(r))
	}
	if !bytes.Equal(img, image(t, new(bm25.Builder), bodies(texts))) {
		t.Fatal("merged otherwise than built")
	}
	h.parts = slices.Replace(h.parts, from, to, part{segment: open(t, img), texts: texts})
}

func (h *history) live() (live []*bm25.Live) {
	for i := range h.parts {
		p := &h.parts[i]
		if p.live == nil || !slices.Equal(p.gone, p.dead) {
			p.live, p.gone = p.segment.Live(p.dead), p.dead
		}
		live = append(live, p.live)
	}
	return live
}

func (h *history) text(r bm25.Ref) text      { return h.parts[r.Segment].texts[r.Text] }
func (h *history) compare(a, b bm25.Ref) int { return cmp.Compare(h.text(a).key, h.text(b).key) }
func (h *history) index() *bm25.Index        { return bm25.NewIndex(h.live(), h.compare) }
func (h *history) allow(f func(int) bool) (allow []bm25.Bitmap) {
	for _, p := range h.parts {
		var m bm25.Bitmap
		for n, text := range p.texts {
			if f(text.key) {
				m.Add(n)
			}
		}
		allow = append(allow, m)
	}
	return allow
}

// fresh returns a history with only the live texts.
func (h *history) fresh(t fatal) *history {
	var texts []text
	for _, p := range h.parts {
		for n, text := range p.texts {
			if !p.dead.Has(n) {
				texts = append(texts, text)
			}
		}
	}
	f := new(history)
	f.add(t, texts)
	return f
}

func bodies(texts []text) (bodies []string) {
	for _, t := range texts {
		bodies = append(bodies, t.body)
	}
	return bodies
}

// A keyed is a hit identified independently of segments.
type keyed struct {
	Key   int
	Score float64
}

func (h *history) search(t fatal, x *bm25.Index, terms []bm25.Term, k int, allow []bm25.Bitmap) (hits []keyed) {
	found, err := x.Search(context.Background(), terms, k, allow, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, hit := range found {
		hits = append(hits, keyed{h.text(hit.Ref).key, hit.Score})
	}
	return hits
}

// Whatever the history of the texts, the answers depend only on the live ones, to the last bit and
// with ties in the same order.
func TestHistoryDoesNotShow(t *testing.T) {
	word := rapid.SampledFrom([]string{"ant", "bee", "cat", "dog", "elk"})
	body := rapid.Map(rapid.SliceOfN(word, 0, 4), join) // few words give many ties
	rapid.Check(t, func(t *rapid.T) {
		h, used := new(history), map[int]bool{}
		t.Repeat(map[string]func(*rapid.T){
			"add": func(t *rapid.T) {
				var batch []text
				for _, s := range rapid.SliceOfN(body, 0, 80).Draw(t, "texts") {
					key := rapid.IntRange(0, 1<<20).Filter(func(k int) bool { return !used[k] }).Draw(t, "key")
					used[key] = true
					batch = append(batch, text{key, s})
				}
				h.add(t, batch)
			},
			"remove": func(t *rapid.T) {
				one := rapid.IntRange(1, 9).Draw(t, "one in")
				h.remove(func(key int) bool { return key%one == 0 })
			},
			"merge": func(t *rapid.T) {
				from := rapid.IntRange(0, len(h.parts)).Draw(t, "from")
				h.merge(t, from, rapid.IntRange(from, len(h.parts)).Draw(t, "to"))
			},
			"": func(t *rapid.T) {
				terms := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) bm25.Term {
					return bm25.Term{Text: word.Draw(t, "term"), Weight: rapid.SampledFrom([]float64{1, 0.3}).Draw(t, "weight")}
				}), 1, 6).Draw(t, "terms")
				same(t, h, h.fresh(t), terms, rapid.IntRange(1, 30).Draw(t, "k"))
			},
		})
	})
}

// same compares all results of two indexes.
func same(t fatal, h, fresh *history, terms []bm25.Term, k int) {
	t.Helper()
	x, want := h.index(), fresh.index()
	if x.Len() != want.Len() {
		t.Fatalf("%d texts, want %d", x.Len(), want.Len())
	}
	if diff := gocmp.Diff(fresh.search(t, want, terms, k, nil), h.search(t, x, terms, k, nil)); diff != "" {
		t.Fatalf("best %d of %v (-fresh +history):\n%s", k, terms, diff)
	}
	odd := func(key int) bool { return key%2 == 1 }
	var odds []keyed
	for _, hit := range fresh.search(t, want, terms, want.Len(), nil) {
		if odd(hit.Key) && len(odds) < k {
			odds = append(odds, hit)
		}
	}
	if diff := gocmp.Diff(odds, h.search(t, x, terms, k, h.allow(odd))); diff != "" {
		t.Fatalf("best %d of %v allowed (-all filtered +allowed):\n%s", k, terms, diff)
	}
	for _, q := range terms {
		if got, want := x.Meaning(q.Text), want.Meaning(q.Text); got != want {
			t.Fatalf("%q means %v, want %v", q.Text, got, want)
		}
	}
	for pick := 0.0; pick < 1; pick += 1.0 / 64 {
		if got, want := x.Sample(pick), want.Sample(pick); got != want {
			t.Fatalf("term at %v of all postings %q, want %q", pick, got, want)
		}
	}
}

// The same with enough texts for thresholds to skip terms, and with many ties.
func TestLongHistoryDoesNotShow(t *testing.T) {
	bodies, r := corpus(20_000, 20), rand.New(rand.NewPCG(4, 2))
	keys, h := r.Perm(len(bodies)), new(history)
	for i := 0; i < len(keys); {
		var batch []text
		for n := i + r.IntN(6000); i <= n && i < len(keys); i++ {
			batch = append(batch, text{keys[i], bodies[keys[i]%10_000]})
		}
		h.add(t, batch)
		h.remove(func(int) bool { return r.IntN(8) == 0 })
	}
	check := func() {
		fresh := h.fresh(t)
		for _, q := range queries(8) {
			for _, k := range []int{1, 10, 300} {
				same(t, h, fresh, q, k)
				same(t, h, fresh, q[:1], k)
			}
		}
	}
	check()
	h.merge(t, 1, 3)
	check()
}
