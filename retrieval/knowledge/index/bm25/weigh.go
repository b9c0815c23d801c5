package bm25

import (
	"cmp"
	"slices"
)

// A Term is a part of a question: texts with any of its terms match. Terms given
// several times add up.
type Term struct {
	Text   string
	Weight float64 // 1 is plain BM25; not negative
	Whole  string  // identifier that it is or is a part of, for Settle; "" for none
}

// maxTerms bounds the terms of one search. Of a longer question the rarest count:
// they say what it is about, and the rest is only cost.
const maxTerms = 64

// A question is the terms of a search, weightiest first.
type question []weightedTerm

// A weightedTerm is a term with what its impact is multiplied by.
type weightedTerm struct {
	*known
	factor float32 // weight · idf · (k1+1) · unit
}

// weigh adds repeated terms together and looks them up.
func (x *Index) weigh(terms []Term) question {
	weights := make(map[string]float64, len(terms))
	for _, t := range terms {
		if t.Weight > 0 {
			weights[t.Text] += t.Weight
		}
	}
	q := make(question, 0, len(weights))
	for text, w := range weights {
		if k := x.look(text); k.texts > 0 {
			q = append(q, weightedTerm{k, float32(w * idf(x.texts, k.texts) * (k1 + 1) * unit)})
		}
	}
	slices.SortFunc(q, func(a, b weightedTerm) int {
		return cmp.Or(cmp.Compare(b.factor, a.factor), cmp.Compare(a.term, b.term))
	})
	return q[:min(len(q), maxTerms)]
}
