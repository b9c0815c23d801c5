package bm25

import (
	"context"
	"runtime"
)

const (
	// keptTexts is how many of the best texts of a question a Best keeps, since one may be deleted
	// or have the same score as the next.
	keptTexts = 3
	// fewPlaces is the most texts that are scored one by one because they contain a new term of a
	// question.
	fewPlaces = 256
)

// A Best is the greatest score of a text for a question, with what is needed to find it again
// after a small change of the Index.
type Best struct {
	Score float64  // 0 if no text matches
	terms question // with their weights
	texts []keptText
	rest  float64 // upper bound of the scores of all other texts
}

// A keptText is a text, identified independently of the number of its segment.
type keptText struct {
	segment *Segment
	text    int
	score   int64
}

// Best returns the greatest score of the live texts for a question, which is that of the first Hit
// of Search. before, unless nil, is the Best of about the same question in an earlier Index, and
// change is what has changed since.
//
// After a small change it scores only a few texts: those that were best, new ones, and those with
// a term that was not in the question before. No other text scored more than before.rest, and none
// scores much more now, because the factors of the terms are about the same. If one of the scored
// texts exceeds that bound, it is the best of all. Otherwise all texts are searched.
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

// best makes a Best of hits, of which there are keptTexts unless fewer texts match. No other text
// scores more than rest or the last hit.
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

// again finds the best text without searching all texts, if possible.
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
	// Each term's part of a score is truncated to a whole number of units.
	rest := (before.rest + float64(maxTerms)/unit) * growth * change.growth * (slack + 1.0/(1<<16))
	b := x.best(q, best.sorted(nil), rest)
	return b, b.Score >= rest, nil
}

// growth returns an upper bound for the factor by which scores may have grown because of the
// factors of the terms, and the terms that the question did not have before.
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

// count returns the sum of the document frequencies of terms.
func count(terms []weightedTerm) (n int) {
	for _, t := range terms {
		n += t.texts
	}
	return n
}

// score returns the score of one text of this segment.
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
