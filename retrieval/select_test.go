package retrieval_test

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"sidenote/retrieval"
)

// outcome formats a Result in lines that are easy to check.
func outcome(res retrieval.Result) string {
	var b strings.Builder
	for _, s := range res.Sources {
		fmt.Fprintf(&b, "in  %s/%s#%d\n", s.Knowledge, s.Doc, s.Chunk)
	}
	for _, e := range res.Excluded.List() {
		fmt.Fprintf(&b, "out %s/%s#%d %s: %s\n", e.Knowledge, e.Doc, e.Chunk, e.Reason, e.Why())
	}
	fmt.Fprintf(&b, "%d retrieved, %d unique", res.Retrieved, res.Unique)
	return b.String()
}

func TestSelect(t *testing.T) {
	const leave = "ant bee cat dog emu fox gnu hen ibis jay"
	for name, c := range map[string]struct {
		bases    engines
		settings func(*retrieval.Settings)
		want     string
	}{
		"calibrated threshold": {
			bases: engines{"a": has(3, chunk("x.md", 0, 3, "x"), chunk("y.md", 0, 1.1, "y"), chunk("z.md", 0, 2.96, "z"), chunk("n.md", 0, math.NaN(), "n"))},
			want: `in  a/x.md#0
out a/z.md#0 score: score 2.96 < 3.00
out a/y.md#0 score: score 1.1 < 3.0
out a/n.md#0 score: score NaN < 3.0
4 retrieved, 4 unique`,
		},
		"threshold of the policy": {
			bases:    engines{"a": has(3, chunk("x.md", 0, 7, "x"), chunk("y.md", 0, 4, "y"))},
			settings: func(s *retrieval.Settings) { s.ScoreThreshold = 5 },
			want:     "in  a/x.md#0\nout a/y.md#0 score: score 4.0 < 5.0\n2 retrieved, 2 unique",
		},
		"thresholds of bases": {
			bases: engines{
				"a": has(3, chunk("x.md", 0, 12, "x"), chunk("y.md", 0, 7, "y")),  // relevance 0.8 and 0.7
				"b": has(3, chunk("z.md", 0, 2, "z"), chunk("w.md", 0, 1.9, "w")), // relevance 0.4 and a little less
				"c": has(0, chunk("v.md", 0, .75, "v"), chunk("u.md", 0, .74, "u")),
				"d": has(3, chunk("t.md", 0, 3, "t")),
			},
			settings: func(s *retrieval.Settings) {
				s.Thresholds = []retrieval.Threshold{{Knowledge: "a", Relevance: .75}, {Knowledge: "b", Relevance: .4}, {Knowledge: "c", Relevance: .75}}
			},
			want: `in  a/x.md#0
in  c/v.md#0
in  d/t.md#0
in  b/z.md#0
out c/u.md#0 score: score 0.7 < 0.8
out a/y.md#0 score: score 7.0 < 9.0
out b/w.md#0 score: score 1.9 < 2.0
7 retrieved, 7 unique`,
		},
		"the threshold of a policy is for all bases": {
			bases: engines{"a": has(3, chunk("x.md", 0, 7, "x"), chunk("y.md", 0, 4, "y"))},
			settings: func(s *retrieval.Settings) {
				s.ScoreThreshold, s.Thresholds = 5, []retrieval.Threshold{{Knowledge: "a", Relevance: .1}}
			},
			want: "in  a/x.md#0\nout a/y.md#0 score: score 4.0 < 5.0\n2 retrieved, 2 unique",
		},
		"no floor, no threshold": {
			bases: engines{"a": has(0, chunk("x.md", 0, .01, "x"), chunk("y.md", 0, -2, "y"))},
			want:  "in  a/x.md#0\nin  a/y.md#0\n2 retrieved, 2 unique",
		},
		"duplicates": {
			bases: engines{"a": has(0,
				chunk("leave.md", 3, 9, leave),
				chunk("copy.md", 0, 8, leave),
				chunk("leave-2019.md", 1, 7, strings.Replace(leave, "jay", "kea", 1)),      // 9 of 11 terms in common
				chunk("other.md", 0, 6, strings.Replace(leave, "ibis jay", "kea lark", 1)), // 8 of 12 terms in common
				chunk("twice.md", 0, 5, leave+" "+strings.ToUpper(leave)),
			)},
			want: `in  a/leave.md#3
in  a/other.md#0
out a/leave-2019.md#1 duplicate: duplicate of leave.md#3
out a/copy.md#0 duplicate: duplicate of leave.md#3
out a/twice.md#0 duplicate: duplicate of leave.md#3
5 retrieved, 2 unique`,
		},
		"texts without terms are duplicates only if equal": {
			bases: engines{"a": has(0, chunk("x.md", 0, 3, " "), chunk("y.md", 0, 2, "\t"), chunk("z.md", 0, 1, " "))},
			want:  "in  a/x.md#0\nin  a/y.md#0\nout a/z.md#0 duplicate: duplicate of x.md#0\n3 retrieved, 2 unique",
		},
		"share of a document": {
			bases: engines{
				"a": has(0, chunk("x.md", 0, 9, "p"), chunk("x.md", 1, 8, "q"), chunk("x.md", 2, 7, "r"), chunk("y.md", 0, 6, "s")),
				"b": has(0, chunk("x.md", 0, 5, "t")),
			},
			settings: func(s *retrieval.Settings) { s.MaxPerDocument = 2 },
			want: `in  a/x.md#0
in  a/x.md#1
in  a/y.md#0
in  b/x.md#0
out a/x.md#2 per_document: 2 of x.md already
5 retrieved, 5 unique`,
		},
		"a copy of what fell is no duplicate": {
			bases:    engines{"a": has(0, chunk("x.md", 0, 9, "p"), chunk("x.md", 1, 8, "q"), chunk("y.md", 0, 7, "q"))},
			settings: func(s *retrieval.Settings) { s.MaxPerDocument = 1 },
			want:     "in  a/x.md#0\nin  a/y.md#0\nout a/x.md#1 per_document: 1 of x.md already\n3 retrieved, 2 unique",
		},
		"top k": {
			bases:    engines{"a": has(0, chunk("x.md", 0, 9, "p"), chunk("y.md", 0, 8, "q"), chunk("z.md", 0, 7, "p"))},
			settings: func(s *retrieval.Settings) { s.TopK = 1 },
			want:     "in  a/x.md#0\nout a/y.md#0 top_k: after the best 1\nout a/z.md#0 duplicate: duplicate of x.md#0\n3 retrieved, 2 unique",
		},
		"duplicates are found when the list is full, and of what came too late for it": {
			bases: engines{"a": has(0,
				chunk("x.md", 0, 9, leave), chunk("y.md", 0, 8, "q"),
				chunk("z.md", 0, 7, strings.ToUpper(leave)), chunk("w.md", 0, 6, "q"), chunk("v.md", 0, 5, "r"), chunk("u.md", 0, 4, "R"))},
			settings: func(s *retrieval.Settings) { s.TopK = 2 },
			want: `in  a/x.md#0
in  a/y.md#0
out a/z.md#0 duplicate: duplicate of x.md#0
out a/w.md#0 duplicate: duplicate of y.md#0
out a/v.md#0 top_k: after the best 2
out a/u.md#0 duplicate: duplicate of v.md#0
6 retrieved, 3 unique`,
		},
		"twins take no place in the list and no share of their document": {
			bases: engines{
				"a": has(0, chunk("x.html", 0, 9, leave), chunk("x.txt", 0, 8.9, leave+" kea"), chunk("x.html", 1, 8, "q"), chunk("x.txt", 1, 7, "Q"), chunk("x.html", 2, 6, "r")),
				"b": has(0, chunk("copy/x.html", 0, 5, leave), chunk("y.md", 0, 4, "s")),
			},
			settings: func(s *retrieval.Settings) { s.TopK = 4 },
			want: `in  a/x.html#0
in  a/x.html#1
in  a/x.html#2
in  b/y.md#0
out a/x.txt#0 duplicate: duplicate of x.html#0
out a/x.txt#1 duplicate: duplicate of x.html#1
out b/copy/x.html#0 duplicate: duplicate of x.html#0 in a
7 retrieved, 4 unique`,
		},
		"what is below the threshold has twins too": {
			bases: engines{"a": has(5, chunk("x.md", 0, 9, "p"), chunk("y.md", 0, 4, "P"), chunk("z.md", 0, 3, "q"), chunk("w.md", 0, 2, "Q"))},
			want: `in  a/x.md#0
out a/y.md#0 score: score 4.0 < 5.0
out a/z.md#0 score: score 3.0 < 5.0
out a/w.md#0 score: score 2.0 < 5.0
4 retrieved, 2 unique`,
		},
		"scores that differ by very little": {
			bases: engines{"a": has(3, chunk("x.md", 0, 3, "x"), chunk("y.md", 0, 2.9999994, "y"), chunk("z.md", 0, 3-1e-9, "z"))},
			want: `in  a/x.md#0
out a/z.md#0 score: score 3.000000 < 3.000000
out a/y.md#0 score: score 2.999999 < 3.000000
3 retrieved, 3 unique`,
		},
		"ties of all but text": {
			bases:    engines{"a": has(0, chunk("x.md", 0, 1, "q"), chunk("x.md", 0, 1, "p"))},
			settings: func(s *retrieval.Settings) { s.TopK = 1 },
			want:     "in  a/x.md#0\nout a/x.md#0 top_k: after the best 1\n2 retrieved, 2 unique",
		},
		"ties": {
			bases: engines{
				"b": has(2, chunk("a.md", 0, 4, "p")),
				"a": has(1, chunk("b.md", 1, 2, "q"), chunk("b.md", 0, 2, "r"), chunk("a.md", 7, 2, "s")),
			},
			want: "in  a/b.md#0\nin  a/b.md#1\nin  a/a.md#7\nin  b/a.md#0\n4 retrieved, 4 unique",
		},
		"a document with more hits comes first": {
			bases: engines{"a": has(1, chunk("x.md", 0, 4.1, "p"), chunk("y.md", 0, 4, "q"), chunk("y.md", 5, 3, "r"))},
			want:  "in  a/y.md#0\nin  a/x.md#0\nin  a/y.md#5\n3 retrieved, 3 unique",
		},
		"many weak hits are no strong one": {
			bases: engines{"a": has(1, chunk("x.md", 0, 4, "p"), chunk("y.md", 0, 2.5, "q"), chunk("y.md", 1, 2.4, "r"), chunk("y.md", 2, 2.3, "s"), chunk("y.md", 3, 2.2, "t"))},
			want: `in  a/x.md#0
in  a/y.md#0
in  a/y.md#1
in  a/y.md#2
out a/y.md#3 per_document: 3 of y.md already
5 retrieved, 5 unique`,
		},
		"a document with more hits passes no higher threshold": {
			bases: engines{"a": has(3, chunk("x.md", 0, 3.1, "p"), chunk("y.md", 0, 2.9, "q"), chunk("y.md", 1, 2.8, "r"))},
			want: `in  a/x.md#0
out a/y.md#0 score: score 2.9 < 3.0
out a/y.md#1 score: score 2.8 < 3.0
3 retrieved, 3 unique`,
		},
		"a base with more hits comes first": {
			bases: engines{"a": has(1, chunk("x.md", 0, 4.1, "p")), "b": has(1, chunk("y.md", 0, 4, "q"), chunk("z.md", 0, 3.9, "r"), chunk("w.md", 0, 3.8, "s"))},
			want:  "in  b/y.md#0\nin  b/z.md#0\nin  b/w.md#0\nin  a/x.md#0\n4 retrieved, 4 unique",
		},
		"many weak hits of a base are no strong one of another": {
			bases: engines{"a": has(1, chunk("x.md", 0, 6, "p")), "b": has(1, chunk("y.md", 0, 4, "q"), chunk("z.md", 0, 3.9, "r"), chunk("w.md", 0, 3.8, "s"))},
			want:  "in  a/x.md#0\nin  b/y.md#0\nin  b/z.md#0\nin  b/w.md#0\n4 retrieved, 4 unique",
		},
		"bases compare by relevance": {
			bases: engines{
				"a": has(10, chunk("x.md", 0, 30, "p"), chunk("y.md", 0, 11, "q")),
				"b": has(.1, chunk("z.md", 0, .2, "r")),
				"c": has(0, chunk("w.md", 0, .6, "s"), chunk("v.md", 0, .51, "t")),
			},
			want: "in  a/x.md#0\nin  b/z.md#0\nin  c/w.md#0\nin  a/y.md#0\nin  c/v.md#0\n5 retrieved, 5 unique",
		},
		"an engine without a floor keeps its order above 1": {
			bases: engines{"a": has(1, chunk("x.md", 0, 90, "p")), "b": has(0, chunk("y.md", 0, 7, "q"), chunk("w.md", 0, 9, "r"))},
			want:  "in  b/w.md#0\nin  b/y.md#0\nin  a/x.md#0\n3 retrieved, 3 unique",
		},
		"the least base is still told of": {
			bases: engines{
				"a": has(0, chunk("x.md", 0, 9, "p"), chunk("y.md", 0, 8, "q"), chunk("z.md", 0, 7, "r")),
				"b": has(0, chunk("w.md", 0, .1, "s"), chunk("v.md", 0, .05, "t")),
			},
			settings: func(s *retrieval.Settings) { s.TopK, s.NumCandidates = 1, 2 },
			want: `in  a/x.md#0
out a/y.md#0 top_k: after the best 1
out b/w.md#0 top_k: after the best 1
4 retrieved, 4 unique`,
		},
	} {
		ids := make([]string, 0, len(c.bases))
		for id := range c.bases {
			ids = append(ids, id)
		}
		q := asking(ids...) // in random order, which makes no difference
		if c.settings != nil {
			c.settings(&q.Settings)
		}
		res, err := c.bases.pipeline().Retrieve(t.Context(), q)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := gocmp.Diff(c.want, outcome(res)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Each base appears among the sources or the excluded candidates, however many were excluded
// before; excluded candidates have no text.
func TestEveryBaseIsToldOf(t *testing.T) {
	full := func(doc string, score float64, text string) retrieval.Source {
		s := chunk(doc, 0, score, text)
		s.Before, s.After, s.Tokens, s.Name = "before", "after", 3, "Name"
		return s
	}
	q := asking("a", "b", "c", "d")
	q.Settings.TopK, q.Settings.NumCandidates = 1, 2
	res, err := engines{
		"a": has(0, full("best.md", 9, "p"), full("last.md", .1, "q")),
		"b": has(0, full("w.md", 8, "r"), full("v.md", 7, "s")),
		"c": has(0, full("u.md", .5, "t"), full("t.md", .4, "u")),
		"d": has(0, full("s.md", .3, "v"), full("r.md", .2, "w")),
	}.pipeline().Retrieve(t.Context(), q)
	want := `in  a/best.md#0
out b/w.md#0 top_k: after the best 1
out b/v.md#0 top_k: after the best 1
out c/u.md#0 top_k: after the best 1
out d/s.md#0 top_k: after the best 1
8 retrieved, 8 unique`
	if diff := gocmp.Diff(want, outcome(res)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, e := range res.Excluded.List() {
		if e.Name != "Name" {
			t.Errorf("told of as %+v", e)
		}
	}
	if s := res.Sources[0]; s.Text != "p" || s.Before != "before" || s.After != "after" || s.Tokens != 3 {
		t.Errorf("chosen as %+v", s)
	}
}

// jaccard is the textbook definition.
func jaccard(a, b string) float64 {
	union, common := map[string]bool{}, 0
	for _, w := range words(a) {
		union[w] = true
	}
	counted := map[string]bool{}
	for _, w := range words(b) {
		if union[w] && !counted[w] {
			common++
		}
		counted[w] = true
	}
	for w := range counted {
		union[w] = true
	}
	if len(union) == 0 {
		return 0
	}
	return float64(common) / float64(len(union))
}

var (
	someText = rapid.Map(rapid.SliceOfN(rapid.SampledFrom(strings.Fields("a b c d e f g h")), 0, 12),
		func(w []string) string { return strings.Join(w, " ") })
	someScore  = rapid.OneOf(rapid.Float64Range(0, 10), rapid.SampledFrom([]float64{0, 1, 2, -1, math.NaN(), math.Inf(1)}))
	someSource = rapid.Custom(func(t *rapid.T) retrieval.Source {
		return chunk(rapid.SampledFrom([]string{"x", "y", "z", "w"}).Draw(t, "doc"), rapid.IntRange(0, 5).Draw(t, "chunk"),
			someScore.Draw(t, "score"), someText.Draw(t, "text"))
	})
	someSettings = rapid.Custom(func(t *rapid.T) retrieval.Settings {
		s := retrieval.DefaultSettings()
		s.TopK = rapid.IntRange(1, 8).Draw(t, "top k")
		s.NumCandidates = rapid.IntRange(1, 30).Draw(t, "candidates")
		s.MaxPerDocument = rapid.IntRange(1, 4).Draw(t, "per document")
		s.ScoreThreshold = rapid.SampledFrom([]float64{-1, 0, 1, 5}).Draw(t, "threshold")
		return s
	})
)

// Invariants of a selection, for arbitrary answers of bases.
func TestSelectProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		bases, floors, q := engines{}, map[string]float64{}, asking()
		q.Settings = someSettings.Draw(t, "settings")
		retrieved := 0
		for _, id := range []string{"a", "b", "c"}[:rapid.IntRange(1, 3).Draw(t, "bases")] {
			list := rapid.SliceOfN(someSource, 0, 15).Draw(t, id)
			slices.SortFunc(list, func(a, b retrieval.Source) int { return cmp.Compare(b.Score, a.Score) })
			floors[id] = rapid.SampledFrom([]float64{0, .5, 2}).Draw(t, "floor")
			bases[id] = has(floors[id], list...)
			q.Bases = append(q.Bases, retrieval.Ref{Knowledge: id, Generation: "g"})
			retrieved += min(len(list), max(q.Settings.NumCandidates, q.Settings.TopK))
		}
		res, err := bases.pipeline().Retrieve(context.Background(), q)
		if err != nil {
			t.Fatal(err)
		}
		checkSelection(t, res, q.Settings, floors)
		if res.Retrieved != retrieved || res.Unique < len(res.Sources) || res.Unique > retrieved {
			t.Fatalf("%d retrieved (want %d), %d unique, %d sources", res.Retrieved, retrieved, res.Unique, len(res.Sources))
		}
		if all := len(res.Sources) + res.Excluded.Len(); all > retrieved ||
			all < retrieved && res.Excluded.Len() < q.Settings.NumCandidates {
			t.Fatalf("%d of %d candidates accounted for", all, retrieved)
		}
		slices.Reverse(q.Bases)
		again, err := bases.pipeline().Retrieve(context.Background(), q)
		if diff := gocmp.Diff(outcome(res), outcome(again)); diff != "" || err != nil {
			t.Fatalf("bases in another order (%v):\n%s", err, diff)
		}
	})
}

// checkSelection checks the sources against the settings.
func checkSelection(t *rapid.T, res retrieval.Result, s retrieval.Settings, floors map[string]float64) {
	perDocument := map[string]int{}
	for i, src := range res.Sources {
		perDocument[src.Knowledge+"/"+src.Doc]++
		threshold := s.ScoreThreshold
		if threshold < 0 {
			threshold = floors[src.Knowledge]
		}
		if !(src.Score >= threshold) && (threshold != 0 || s.ScoreThreshold >= 0 || math.IsNaN(src.Score)) {
			t.Fatalf("score %v < %v", src.Score, threshold)
		}
		for _, better := range res.Sources[:i] {
			if better.Text == src.Text || jaccard(better.Text, src.Text) >= 0.8 {
				t.Fatalf("duplicates: %q, %q", better.Text, src.Text)
			}
		}
	}
	for doc, n := range perDocument {
		if n > s.MaxPerDocument {
			t.Fatalf("%d chunks of %s", n, doc)
		}
	}
	if len(res.Sources) > s.TopK {
		t.Fatalf("%d sources", len(res.Sources))
	}
	for _, e := range res.Excluded.List() {
		if e.Reason == "" || e.Why() == "" {
			t.Fatalf("excluded %+v", e)
		}
	}
}

// spelled returns a number in letters.
func spelled(n int) string {
	return strings.Map(func(digit rune) rune { return digit - '0' + 'k' }, fmt.Sprintf("%03d", n))
}

// sketched returns the sources with sketches of their texts.
func sketched(sources []retrieval.Source) []retrieval.Source {
	var k retrieval.Sketcher
	out := slices.Clone(sources)
	for i := range out {
		for _, term := range words(out[i].Text) {
			k.Add([]byte(term))
		}
		out[i].Sketch = string(k.Append(nil))
	}
	return out
}

// Sketches find the same duplicates as terms, without analysing any text, and are removed from the
// result.
func TestSelectBySketches(t *testing.T) {
	var sources []retrieval.Source
	for i := range 60 {
		text := ""
		for w := range 100 {
			text += spelled(i/3) + spelled(w) + " "
		}
		sources = append(sources, chunk(fmt.Sprintf("%d.md", i), 0, 100-float64(i), text+[]string{"", "print version", "an author and her page"}[i%3]))
	}
	want, err := engines{"a": has(1, sources...)}.pipeline().Retrieve(t.Context(), asking("a"))
	if err != nil || want.Unique != 17 { // of 50
		t.Fatalf("%d unique, %v", want.Unique, err)
	}
	p := engines{"a": has(1, sketched(sources)...)}.pipeline()
	p.Terms = func(text string) []string {
		t.Errorf("%.20q was analysed", text)
		return nil
	}
	got, err := p.Retrieve(t.Context(), asking("a"))
	if diff := gocmp.Diff(outcome(want), outcome(got)); diff != "" || err != nil {
		t.Errorf("%v (-by terms +by sketches):\n%s", err, diff)
	}
	for _, s := range got.Sources {
		if s.Sketch != "" {
			t.Error("the sketch goes on")
		}
	}
}

func BenchmarkPipeline(b *testing.B) {
	var sources []retrieval.Source
	for i := range 200 {
		text := strings.Repeat(fmt.Sprintf("chunk %d of many with words that differ %d ", i, i*i), 30)
		for w := range 100 {
			text += fmt.Sprintf("word%d ", (i*i+w*w)%1000)
		}
		sources = append(sources, chunk(fmt.Sprintf("%d.md", i), 0, 500-float64(i), text))
	}
	for _, n := range []int{50, 200} {
		for name, list := range map[string][]retrieval.Source{"sketches": sketched(sources)[:n], "terms": sources[:n]} {
			b.Run(fmt.Sprintf("%s/%d", name, n), func(b *testing.B) {
				p, q := engines{"a": has(1, list...)}.pipeline(), asking("a")
				q.Settings.NumCandidates = n
				b.ReportAllocs()
				for b.Loop() {
					if _, err := p.Retrieve(b.Context(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}
