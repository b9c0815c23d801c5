package index

import (
	"cmp"
	"runtime"
	"slices"

	"sidenote/retrieval/knowledge/index/bm25"
)

// Sample returns n texts that have vectors, see Segments.Sample.
func (v VectorSet) Sample(n int) []bm25.Ref {
	return sample(v.segments, n, v.compare, func(l *Live, text int) bool { return l.Dense.Has(text) })
}

// Sample returns n texts, or all if there are fewer. It depends only on the texts, not on their
// segments, and changes little if some texts change.
func (s Segments) Sample(n int) []bm25.Ref {
	return sample(s, n, s.compare, func(*Live, int) bool { return true })
}

// sample returns the n texts with the least checksums among those for which some returns true.
func sample(s Segments, n int, compare bm25.Compare, some func(l *Live, text int) bool) []bm25.Ref {
	defer runtime.KeepAlive(s)
	type drawn struct {
		sum int
		bm25.Ref
	}
	least := func(a, b drawn) int { return cmp.Or(cmp.Compare(a.sum, b.sum), compare(a.Ref, b.Ref)) }
	var best []drawn
	for i := range s {
		l := &s[i]
		for d := range l.texts.documents {
			if !l.searched(d) {
				continue
			}
			for t := l.texts.first(d); t < l.texts.first(d+1); t++ {
				one := drawn{number(l.texts.sums, t), bm25.Ref{Segment: i, Text: t}}
				if !some(l, t) || len(best) == n && least(one, best[n-1]) >= 0 {
					continue
				}
				at, _ := slices.BinarySearchFunc(best, one, least)
				best = slices.Insert(best, at, one)
				best = best[:min(len(best), n)]
			}
		}
	}
	refs := make([]bm25.Ref, len(best))
	for i, d := range best {
		refs[i] = d.Ref
	}
	return refs
}
