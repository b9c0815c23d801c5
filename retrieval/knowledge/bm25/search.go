package bm25

import (
	"cmp"
	"context"
	"math/bits"
	"slices"
)

// A Term is a part of a question: texts with any of its terms match. Terms given
// several times add up.
type Term struct {
	Text   string
	Weight float64 // 1 is plain BM25; not negative
}

// A Hit is a text that matches.
type Hit struct {
	Text  int // ordinal
	Score float64
}

// maxTerms bounds the terms of one search. Of a longer question the rarest count:
// they say what it is about, and the rest is only cost.
const maxTerms = 64

// Search returns the at most k best texts, best first; equal scores stand in
// order of ordinal. The error is ctx's.
func (x *Index) Search(ctx context.Context, terms []Term, k int) ([]Hit, error) {
	weighted := x.weigh(terms)
	if len(weighted) == 0 || k <= 0 {
		return nil, ctx.Err()
	}
	sc, _ := x.scratch.Get().(*scratch)
	if sc == nil {
		sc = new(scratch)
	}
	defer x.scratch.Put(sc)
	best := newTop(min(k, x.texts))
	for i := range x.segments {
		if err := sc.search(ctx, &x.segments[i], weighted, best); err != nil {
			return nil, err
		}
	}
	return best.sorted(), nil
}

// weightedTerm is a term of a search by its number, with what its impact is multiplied by.
type weightedTerm struct {
	id     uint32
	factor float32 // weight · idf · (k1+1) · unit
}

// weigh looks the terms up and adds repeated ones together.
func (x *Index) weigh(terms []Term) []weightedTerm {
	weights := make(map[uint32]float64, len(terms))
	for _, t := range terms {
		if id, ok := x.vocabulary.Lookup(t.Text); ok && t.Weight > 0 {
			weights[id] += t.Weight
		}
	}
	out := make([]weightedTerm, 0, len(weights))
	for id, w := range weights {
		out = append(out, weightedTerm{id, float32(MaxScore(w*idf(float64(x.texts), float64(x.dfs[id]))) * unit)})
	}
	slices.SortFunc(out, func(a, b weightedTerm) int {
		return cmp.Or(cmp.Compare(b.factor, a.factor), cmp.Compare(a.id, b.id))
	})
	return out[:min(len(out), maxTerms)]
}

// window is how many texts are scored at a time: their scores stay in the
// processor's first cache.
const window = 2048

// A scratch is the working memory of one search in one segment.
//
// Terms stand by the most they can add, least first. The first of them are
// optional as long as all of them together could not lift a text above the
// threshold: texts are found through the others only, and the optional terms
// are looked up for the texts that might still make it.
type scratch struct {
	lists  []list
	bounds []int64 // bounds[i] is the most that lists[:i] can add together
	scores [window]int64
	found  [window / 64]uint64 // texts of the window that a required term has
}

// A list is what is left of one term's postings.
type list struct {
	left   []posting
	factor float32
	most   int64
}

func (l *list) score(p posting, norms []float32) int64 {
	return int64(l.factor * impact(p.freq(), norms[p.text()]))
}

// search offers the texts of s to best.
func (sc *scratch) search(ctx context.Context, s *segment, terms []weightedTerm, best *top) error {
	sc.open(s, terms)
	optional := 0
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		for optional < len(sc.lists) && sc.bounds[optional+1] <= best.threshold {
			optional++
		}
		start, ok := sc.first(optional)
		if !ok {
			return nil
		}
		sc.fill(s, optional, start)
		sc.drain(s, optional, start, best)
	}
}

// open readies the lists of the terms that s has.
func (sc *scratch) open(s *segment, terms []weightedTerm) {
	sc.lists = sc.lists[:0]
	for _, t := range terms {
		if postings := s.of(t.id); len(postings) > 0 {
			sc.lists = append(sc.lists, list{postings, t.factor, int64(t.factor * s.best[t.id])})
		}
	}
	slices.SortStableFunc(sc.lists, func(a, b list) int { return cmp.Compare(a.most, b.most) })
	sc.bounds = append(sc.bounds[:0], 0)
	for i, l := range sc.lists {
		sc.bounds = append(sc.bounds, sc.bounds[i]+l.most)
	}
}

// first returns the first text left that a required term has.
func (sc *scratch) first(optional int) (text uint32, ok bool) {
	for _, l := range sc.lists[optional:] {
		if len(l.left) > 0 && (!ok || l.left[0].text() < text) {
			text, ok = l.left[0].text(), true
		}
	}
	return text, ok
}

// fill adds up the required terms for the window of texts from start on.
func (sc *scratch) fill(s *segment, optional int, start uint32) {
	for i := optional; i < len(sc.lists); i++ {
		l := &sc.lists[i]
		n := 0
		for _, p := range l.left {
			at := p.text() - start
			if at >= window {
				break
			}
			sc.scores[at] += l.score(p, s.norms)
			sc.found[at/64] |= 1 << (at % 64)
			n++
		}
		l.left = l.left[n:]
	}
}

// drain adds the optional terms, greatest first, for the texts of the window that
// can still pass the threshold, offers what passes and leaves the window empty.
func (sc *scratch) drain(s *segment, optional int, start uint32, best *top) {
	for i := optional - 1; i >= 0; i-- {
		n := sc.prune(sc.bounds[i+1], best.threshold)
		if n == 0 {
			break
		}
		l := &sc.lists[i]
		l.left = l.left[seek(l.left, start):]
		// Looking a text up costs about as much as adding up eight that come in turn.
		if inWindow := len(l.left) * window / (len(s.norms) - int(start)); inWindow < 8*n {
			l.sweep(s, start, &sc.scores)
		} else {
			sc.lookUp(s, l, start)
		}
	}
	for w, set := range sc.found {
		for ; set != 0; set &= set - 1 {
			at := w*64 + bits.TrailingZeros64(set)
			if score := sc.scores[at]; score > best.threshold {
				best.offer(s.base+int(start)+at, score)
			}
		}
	}
	clear(sc.found[:])
	clear(sc.scores[:])
}

// prune forgets the texts that cannot pass the threshold with what is left to
// add, and returns how many stay.
func (sc *scratch) prune(left, threshold int64) (n int) {
	for w, set := range sc.found {
		for ; set != 0; set &= set - 1 {
			at := bits.TrailingZeros64(set)
			if sc.scores[w*64+at]+left <= threshold {
				sc.found[w] &^= 1 << at
			} else {
				n++
			}
		}
	}
	return n
}

// sweep adds the term to all its texts in the window.
func (l *list) sweep(s *segment, start uint32, scores *[window]int64) {
	for _, p := range l.left {
		at := p.text() - start
		if at >= window {
			return
		}
		scores[at] += l.score(p, s.norms)
	}
}

// lookUp adds the term to those found texts that have it.
func (sc *scratch) lookUp(s *segment, l *list, start uint32) {
	left := l.left
	for w, set := range sc.found {
		for ; set != 0; set &= set - 1 {
			at := w*64 + bits.TrailingZeros64(set)
			left = left[seek(left, start+uint32(at)):]
			if len(left) > 0 && left[0].text() == start+uint32(at) {
				sc.scores[at] += l.score(left[0], s.norms)
			}
		}
	}
	l.left = left
}

// seek returns how many postings come before text: in steps that double, then by
// halving, for most are near.
func seek(postings []posting, text uint32) int {
	step := 1
	for step < len(postings) && postings[step-1].text() < text {
		step *= 2
	}
	lo, hi := step/2, min(step, len(postings))
	for lo < hi {
		mid := (lo + hi) / 2
		if postings[mid].text() < text {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	return lo
}
