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
}

// maxTerms bounds the terms of one search. Of a longer question the rarest count:
// they say what it is about, and the rest is only cost.
const maxTerms = 64

// none is the number of a term that a segment does not have.
const none = ^uint32(0)

// A question is the terms of a search, weightiest first.
type question []weightedTerm

// A weightedTerm is a term with what its impact is multiplied by.
type weightedTerm struct {
	text   string
	factor float32  // weight · idf · (k1+1) · unit
	ids    []uint32 // its number by segment, or none
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
	ids := make([]uint32, len(weights)*len(x.views))
	for text, w := range weights {
		t := weightedTerm{text: text}
		t.ids, ids = ids[:len(x.views)], ids[len(x.views):]
		n := 0
		for i, v := range x.views {
			t.ids[i] = none
			if id, ok := v.segment.find(text); ok && v.count(id) > 0 {
				t.ids[i] = id
				n += v.count(id)
			}
		}
		if n > 0 {
			t.factor = float32(w * idf(x.texts, n) * (k1 + 1) * unit)
			q = append(q, t)
		}
	}
	slices.SortFunc(q, func(a, b weightedTerm) int {
		return cmp.Or(cmp.Compare(b.factor, a.factor), cmp.Compare(a.text, b.text))
	})
	return q[:min(len(q), maxTerms)]
}
