package retrieval

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// twoSets returns two sets with union terms in total, common of them in both.
func twoSets(r *rand.Rand, union, common int) (a, b []string) {
	for i := range union {
		term := fmt.Sprintf("%x", r.Uint64())
		if i < common || i%2 == 0 {
			a = append(a, term)
		}
		if i < common || i%2 == 1 {
			b = append(b, term)
		}
	}
	return a, b
}

// Sketches separate duplicates from others like the sets do, except close to the limit.
func TestEstimate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	pairs := 400
	if testing.Short() {
		pairs = 100
	}
	for _, union := range []int{8, 20, 60, 120, 200, 400} {
		for _, want := range []struct {
			percent     int // common terms, of the union
			least, most int // pairs taken for duplicates
		}{{0, 0, 0}, {50, 0, 0}, {65, 0, pairs / 50}, {75, 0, pairs / 10}, {88, pairs * 97 / 100, pairs}, {95, pairs * 99 / 100, pairs}, {100, pairs, pairs}} {
			found, ruledOut := 0, 0
			for range pairs {
				x, y := twoSets(r, union, (want.percent*union+50)/100)
				a, b := SketchOf(x), SketchOf(y)
				if a.Similar(&b) != b.Similar(&a) {
					t.Fatal("which of two comes first makes a difference")
				}
				ao, bo := a.Glance(), b.Glance()
				if a.Similar(&b) {
					found++
					if ao.RulesOut(bo) {
						t.Fatalf("%d terms, %d %% in both: similar, but ruled out", union, want.percent)
					}
				}
				if ao.RulesOut(bo) {
					ruledOut++
				}
			}
			if want.percent == 0 && union >= 120 && ruledOut < pairs*9/10 {
				t.Errorf("%d terms, none in both: only %d of %d pairs are ruled out at once", union, ruledOut, pairs)
			}
			if found < want.least || found > want.most {
				t.Errorf("%d terms, %d %% in both: %d of %d pairs are duplicates; want %d to %d", union, want.percent, found, pairs, want.least, want.most)
			}
		}
	}
}

// A sketch does not depend on order or repetition, and can be read from disk.
func TestSketch(t *testing.T) {
	var k Sketcher
	sketched := func(terms ...string) string {
		for _, term := range terms {
			k.Add([]byte(term))
		}
		return string(k.Append(nil))
	}
	if sketched("ant", "bee") != sketched("bee", "ant", "bee", "ant") || sketched("ant") == sketched("bee") {
		t.Error("a sketch is not of the set of its terms")
	}
	var terms []string
	for i := range 300 {
		terms = append(terms, fmt.Sprint("term ", i))
	}
	if got := hashTerm([]byte(sketched(terms...))); got != 0xaa26330948512426 {
		t.Errorf("the sketch of old indexes is another, %#x", got)
	}
	if s, ok := ReadSketch([]byte(sketched(terms...))); !ok || s != SketchOf(terms) {
		t.Error("a sketch is not read as it was made")
	}
	for _, none := range []string{"", "short", string(make([]byte, SketchBytes+1))} {
		if _, ok := ReadSketch([]byte(none)); ok {
			t.Errorf("%d bytes are taken for a sketch", len(none))
		}
	}
	empty, other := SketchOf(nil), SketchOf([]string{"ant"})
	if empty.Similar(&empty) || empty.Similar(&other) || other.Similar(&empty) {
		t.Error("a set without a term resembles another")
	}
}

func BenchmarkSimilar(b *testing.B) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, percent := range []int{5, 90} {
		x, y := twoSets(r, 200, 2*percent)
		s, u := SketchOf(x), SketchOf(y)
		b.Run(fmt.Sprintf("%d%%", percent), func(b *testing.B) {
			for b.Loop() {
				s.Similar(&u)
			}
		})
	}
}

func BenchmarkSketch(b *testing.B) {
	terms, _ := twoSets(rand.New(rand.NewPCG(1, 2)), 150, 150)
	var k Sketcher
	var to []byte
	for b.Loop() {
		for _, t := range terms {
			k.Add([]byte(t))
		}
		to = k.Append(slices.Grow(to[:0], SketchBytes))
	}
}
