package bm25

import (
	"context"
	"runtime"
)

const (
	// keptTexts is how many of the best texts of a question a Best keeps: one may be deleted,
	// or have the same score as the next.
	keptTexts = 3
	// fewPlaces is up to how many texts are scored one by one because they have a term that
	// took the place of another in a question.
	fewPlaces = 256
)

// A Best is the greatest score that a text of an Index has for a question, and what it takes
// to find that of an Index which differs little from it.
type Best struct {
	Score float64 // 0 if no text matches
	terms []usedTerm
	texts []keptText
	rest  float64 // no other text scores more
}

// A usedTerm is a term of a question, and what its impact was multiplied by.
type usedTerm struct {
	text   string
	factor float32
}

// A keptText is a text wherever its segment lies.
type keptText struct {
	segment *Segment
	text    int
	score   int64
}

// A Change is what makes an Index out of an earlier one: see Best.
type Change struct {
	index  *Index
	fresh  []Bitmap         // by segment: the live texts that were not among those of the earlier Index
	number map[*Segment]int // of the segments in index
	growth float64          // how much more a text may score for the average length alone
}

// Since returns what makes x of an earlier Index, nil where there was none.
func (x *Index) Since(before *Index) *Change {
	if before == nil {
		return nil
	}
	defer runtime.KeepAlive(before)
	c := &Change{index: x, fresh: make([]Bitmap, len(x.views)), number: make(map[*Segment]int, len(x.views)), growth: 1}
	if before.average > 0 {
		// Norms are of the form a + b/average, so they fall by this at most, and impacts grow.
		c.growth = max(1, x.average/before.average)
	}
	lives := make(map[*Segment]*Live, len(before.views))
	for _, v := range before.views {
		lives[v.segment] = v.Live
	}
	for i, v := range x.views {
		c.number[v.segment] = i
		switch was := lives[v.segment]; {
		case was == nil:
			c.fresh[i].AddRange(0, v.segment.Len())
		case was.dead != nil: // what came back to life, as with an older state of a store
			for w, dead := range was.dead {
				if back := dead &^ v.dead.word(w); back != 0 {
					if c.fresh[i] == nil {
						c.fresh[i] = make(Bitmap, len(was.dead))
					}
					c.fresh[i][w] = back
				}
			}
		}
	}
	return c
}

// Has tells whether the texts that a Best keeps are live in the same segments as before.
func (c *Change) Has(b *Best) bool {
	for _, k := range b.texts {
		if i, here := c.number[k.segment]; !here || c.index.views[i].dead.Has(k.text) {
			return false
		}
	}
	return true
}

// Best returns the greatest score of the live texts for a question, which is that of the
// first Hit of Search. before, unless nil, is the Best of about the same question in an
// earlier Index, and change what has changed since.
//
// Where little has, only few texts are looked at: those that were best, those that are new,
// and those that have a term of the question which it did not have before. No other text
// had more than before.rest, and it has hardly more now, as the factors of the terms are
// about the same. If one of those looked at exceeds that bound, it is the best of all.
// Else all texts are searched.
func (x *Index) Best(ctx context.Context, terms []Term, before *Best, change *Change) (Best, error) {
	defer runtime.KeepAlive(x)
	q := x.weigh(terms)
	if before != nil && change != nil {
		best, ok, err := x.again(ctx, q, before, change)
		if ok || err != nil {
			return best, err
		}
	}
	hits, err := x.find(ctx, q, keptTexts, nil)
	return x.best(q, hits, 0), err
}

// best keeps hits, of which there are keptTexts unless no other text matches. No text that
// is not among them scores more than rest and the last of them.
func (x *Index) best(q question, hits []Hit, rest float64) Best {
	b := Best{rest: rest, terms: make([]usedTerm, len(q)), texts: make([]keptText, len(hits))}
	for i, t := range q {
		b.terms[i] = usedTerm{t.term, t.factor}
	}
	for i, h := range hits {
		b.texts[i] = keptText{x.views[h.Segment].segment, h.Text, int64(h.Score * unit)}
	}
	if len(hits) > 0 {
		b.Score = hits[0].Score
	}
	if len(hits) == keptTexts {
		b.rest = max(rest, hits[keptTexts-1].Score)
	}
	return b
}

// again finds the best text without a search of all, if it can.
func (x *Index) again(ctx context.Context, q question, before *Best, change *Change) (_ Best, ok bool, err error) {
	growth, others := before.growth(q)
	if count(others) > fewPlaces {
		return Best{}, false, nil
	}
	found, err := x.find(ctx, q, keptTexts, change.fresh)
	if err != nil {
		return Best{}, false, err
	}
	best := newTop(keptTexts, x.compare)
	offered := map[Ref]bool{}
	offer := func(ref Ref, score int64) {
		if !offered[ref] { // a heap would keep it twice
			offered[ref] = true
			best.offer(ref, score)
		}
	}
	for _, h := range found {
		offer(h.Ref, int64(h.Score*unit))
	}
	for _, k := range before.texts {
		if i, here := change.number[k.segment]; here && !x.views[i].dead.Has(k.text) {
			ref := Ref{i, k.text}
			offer(ref, x.views[ref.Segment].score(q, ref))
		}
	}
	for _, t := range others {
		for i, in := range t.in {
			if in.id == none {
				continue
			}
			for _, p := range x.views[i].segment.of(in.id) {
				if ref := (Ref{i, int(p.text())}); !x.views[i].dead.Has(ref.Text) {
					offer(ref, x.views[ref.Segment].score(q, ref))
				}
			}
		}
	}
	// Each term's part of a score is cut off to a whole number of units.
	rest := (before.rest + float64(maxTerms)/unit) * growth * change.growth * (slack + 1.0/(1<<16))
	b := x.best(q, best.sorted(), rest)
	return b, b.Score >= rest, nil
}

// growth returns how much more a text may score for q than before, for the factors of the
// terms alone, and the terms that the question did not have before.
func (b *Best) growth(q question) (growth float64, others []weightedTerm) {
	growth = 1
	for _, t := range q {
		i := 0
		for i < len(b.terms) && b.terms[i].text != t.term {
			i++
		}
		if i == len(b.terms) {
			others = append(others, t)
			continue
		}
		growth = max(growth, float64(t.factor)/float64(b.terms[i].factor))
	}
	return growth, others
}

// count returns how many texts have terms, counted for each.
func count(terms []weightedTerm) (n int) {
	for _, t := range terms {
		n += t.texts
	}
	return n
}

// score returns the score of one text, which is in this segment.
func (v *view) score(q question, ref Ref) (score int64) {
	for _, t := range q {
		in := t.in[ref.Segment]
		if in.id == none {
			continue
		}
		postings := v.segment.of(in.id)
		if at := seek(postings, uint32(ref.Text)); at < len(postings) && postings[at].text() == uint32(ref.Text) {
			l := list{factor: t.factor}
			score += l.score(postings[at], v.norms)
		}
	}
	return score
}
