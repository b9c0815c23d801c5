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
	Score float64  // 0 if no text matches
	terms question // as they were weighed
	texts []keptText
	rest  float64 // no other text scores more
}

// A keptText is a text wherever its segment lies.
type keptText struct {
	segment *Segment
	text    int
	score   int64
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
	q := x.weigh(terms, change, nil)
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
	b := Best{rest: rest, terms: q, texts: make([]keptText, len(hits))}
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
	best := newTop(nil, keptTexts, x)
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
			if in.texts == 0 {
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
	b := x.best(q, best.sorted(nil), rest)
	return b, b.Score >= rest, nil
}

// growth returns how much more a text may score for q than before, for the factors of the
// terms alone, and the terms that the question did not have before.
func (b *Best) growth(q question) (growth float64, others []weightedTerm) {
	growth = 1
	for _, t := range q {
		i := 0
		for i < len(b.terms) && b.terms[i].term != t.term {
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
		if in.texts == 0 {
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
